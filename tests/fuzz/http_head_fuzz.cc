// Any bytes as the head of an HTTP request, arriving whole or byte by byte.
// links: server
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/query.h"
#include "server/http_request.h"
#include "server/protocols.h"
#include "server/routes.h"

namespace {
void check(bool holds) {
  if (!holds) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const pagoda::HttpLimits limits{.max_head_bytes = 4096, .max_target_bytes = 256, .max_headers = 20};

  std::size_t scanned = 0;
  const pagoda::HeadScan whole = pagoda::scan_head(bytes, scanned, limits);
  // In pieces: the same verdict, at the first piece that allows it.
  std::size_t scanned_so_far = 0;
  for (std::size_t i = 1; i <= size; ++i) {
    const pagoda::HeadScan part = pagoda::scan_head(bytes.substr(0, i), scanned_so_far, limits);
    if (part.error) {
      check(whole.error.has_value());
      break;
    }
    if (part.end > 0) {
      check(part.end == i && (whole.end == part.end || whole.error.has_value()));
      break;
    }
    check(i < size || whole.end == 0);
  }
  if (whole.end == 0) return 0;

  pagoda::HttpRequest request;
  if (pagoda::parse_head(bytes.substr(0, whole.end), limits, request)) return 0;
  check(!(request.chunked && request.content_length));
  check(request.headers.size() <= limits.max_headers && request.path.size() <= limits.max_target_bytes);
  check(request.path == "*" || request.path.starts_with('/'));
  for (const auto& [name, value] : request.headers)
    for (const char c : value) check(c != '\r' && c != '\n' && c != '\0');
  static const pagoda::RouteTable routes(pagoda::all_routes(pagoda::all_protocols()));
  (void)pagoda::percent_decode(routes.find(request.method, request.path).rest);
  (void)pagoda::parse_query(request.query);
  return 0;
}
