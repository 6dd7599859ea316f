#pragma once
// The head of an HTTP/1.1 request, checked more strictly than RFC 9112 asks, so that no proxy in front
// can read it otherwise: no folded lines, no bare LF or CR, no control characters, no repeated framing
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
  std::string path;       // the target up to '?', as sent; of "http://host/path" what follows the host
  std::string query;      // behind that '?', as sent
  std::string authority;  // "host:port" of such a target, which must be that of the Host header; else empty
  int minor_version = 1;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = true;
  bool expects_continue = false;
  std::size_t head_bytes = 0;  // length of the head as received

  // The value of the first header of that (lower-case) name; empty when there is none.
  std::string_view header(std::string_view name) const;
  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct HttpError {
  int status = 400;
  std::string message;
};

// How far a head that is still arriving can be judged: where it ends (after the blank line), or an error.
struct HeadScan {
  std::size_t end = 0;  // 0: not complete yet
  std::optional<HttpError> error;
};
// `scanned` bytes of `bytes` were looked at before; it is moved forward.
HeadScan scan_head(std::string_view bytes, std::size_t& scanned, const HttpLimits& limits);

// Reads a complete head, blank line included. On failure the error is set and the request is unusable.
std::optional<HttpError> parse_head(std::string_view head, const HttpLimits& limits, HttpRequest& request);

bool is_token_char(char c);  // RFC 9110 tchar

}  // namespace pagoda
