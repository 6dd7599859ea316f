#pragma once
// The head of an HTTP/1.1 request, checked more strictly than RFC 9112 requires, so that no proxy in front
// can interpret it differently: no folded lines, no bare LF or CR, no control characters, no repeated framing
// headers, never both Content-Length and Transfer-Encoding.
// No sockets here. Threads: none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda {

struct HttpLimits {
  std::size_t max_head_bytes = std::size_t{64} << 10;
  std::size_t max_target_bytes = std::size_t{8} << 10;
  std::size_t max_headers = 100;
};

struct HttpRequest {
  std::string method;
  std::string path;       // the target up to '?', as sent; without scheme and host
  std::string query;      // the part after that '?', as sent
  std::string authority;  // "host:port" of an absolute target; must equal the Host header; else empty
  int minor_version = 1;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expects_continue = false;
  std::size_t head_bytes = 0;  // length of the head as received

  // The value of the first header with this lower-case name; empty if there is none.
  std::string_view header(std::string_view name) const;
  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct HttpError {
  int status = 400;
  std::string message;
};

// The result of scanning a head that may still be arriving: its end (after the blank line), or an error.
struct HeadScan {
  std::size_t end = 0;  // 0: not complete yet
  std::optional<HttpError> error;
};
// `scanned`: number of bytes scanned by earlier calls; is advanced.
HeadScan scan_head(std::string_view bytes, std::size_t& scanned, const HttpLimits& limits);

// Parses a complete head, including the blank line. Returns the error, if any; `request` is then unusable.
std::optional<HttpError> parse_head(std::string_view head, const HttpLimits& limits, HttpRequest& request);

bool is_token_char(char c);  // RFC 9110 tchar

}  // namespace pagoda
