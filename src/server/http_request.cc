#include "server/http_request.h"

#include <algorithm>
#include <charconv>

#include "base/ascii.h"

namespace pagoda {
namespace {

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

HttpError bad(std::string message) { return {400, std::move(message)}; }

void split_query(std::string_view target, HttpRequest& request) {
  const std::size_t path_end = std::min(target.find('?'), target.size());
  request.path = target.substr(0, path_end);
  request.query = target.substr(std::min(path_end + 1, target.size()));
}

// Splits "http://host:8000/path?query", as sent to proxies, into authority, path and query. Returns false if
// it is malformed.
bool split_absolute(std::string_view target, HttpRequest& request) {
  const std::size_t scheme_end = target.find("://");
  if (scheme_end == std::string_view::npos) return false;
  const std::string scheme = lowered(target.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https") return false;
  target.remove_prefix(scheme_end + 3);
  const std::size_t end = std::min(target.find_first_of("/?#"), target.size());
  request.authority = lowered(target.substr(0, end));
  target.remove_prefix(end);
  split_query(target, request);
  if (request.path.empty()) request.path = "/";
  return !request.authority.empty() && request.authority.find('@') == std::string::npos &&
         request.path.starts_with('/');
}

std::optional<HttpError> parse_request_line(std::string_view line, const HttpLimits& limits,
                                            HttpRequest& request) {
  const std::size_t method_end = line.find(' ');
  const std::size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end == method_end)
    return bad("The request line is malformed.");
  const std::string_view method = line.substr(0, method_end);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const std::string_view version = line.substr(target_end + 1);
  if (!is_token(method) || method.size() > 32) return bad("The request method is malformed.");
  if (version == "HTTP/1.1")
    request.minor_version = 1;
  else if (version == "HTTP/1.0")
    request.minor_version = 0;
  else if (version.starts_with("HTTP/"))
    return HttpError{505, "Only HTTP/1.1 and HTTP/1.0 are served."};
  else
    return bad("The request line is malformed.");
  if (target.size() > limits.max_target_bytes) return HttpError{414, "The request target is too long."};
  const bool visible = std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  const bool asterisk = target == "*" && method == "OPTIONS";
  if (!visible) return bad("The request target is malformed.");
  request.method = method;
  if (target.starts_with('/') || asterisk)
    split_query(target, request);
  else if (!split_absolute(target, request))
    return bad("The request target is malformed.");
  return std::nullopt;
}

std::optional<HttpError> take_header(std::string_view name, std::string_view value, HttpRequest& request) {
  const bool repeated =
      !request.header(name).empty() || std::any_of(request.headers.begin(), request.headers.end(),
                                                   [&](const auto& header) { return header.first == name; });
  if (name == "content-length") {
    std::uint64_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (repeated || error != std::errc{} || end != value.data() + value.size())
      return bad("The Content-Length header is malformed.");
    request.content_length = length;
  } else if (name == "transfer-encoding") {
    if (repeated || lowered(value) != "chunked") return bad("The only Transfer-Encoding served is chunked.");
    request.chunked = true;
  } else if (name == "host") {
    if (repeated) return bad("There is more than one Host header.");
  } else if (name == "connection") {
    const std::string options = lowered(value);
    if (options.find("close") != std::string::npos) request.keep_alive = false;
    if (request.minor_version == 0 && options.find("keep-alive") != std::string::npos)
      request.keep_alive = true;
  } else if (name == "expect") {
    if (lowered(value) != "100-continue")
      return HttpError{417, "The only expectation served is 100-continue."};
    request.expects_continue = true;
  }
  return std::nullopt;
}

}  // namespace

bool is_token_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [header_name, value] : headers)
    if (header_name == name) return value;
  return {};
}

HeadScan scan_head(std::string_view bytes, std::size_t& scanned, const HttpLimits& limits) {
  HeadScan result;
  const std::size_t first_line = bytes.find('\n');
  const bool target_too_long = first_line == std::string_view::npos
                                   ? bytes.size() > limits.max_target_bytes + 64
                                   : first_line > limits.max_target_bytes + 64;
  if (target_too_long) {
    result.error = HttpError{414, "The request target is too long."};
    return result;
  }
  for (; scanned < bytes.size() && scanned < limits.max_head_bytes; ++scanned) {
    const char c = bytes[scanned];
    if (c != '\n') {
      // A CR must be followed by LF, which is checked at the next byte.
      if (scanned > 0 && bytes[scanned - 1] == '\r') {
        result.error = bad("A line of the request head ends with a bare CR.");
        return result;
      }
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\t' && c != '\r') || byte == 0x7f) {
        result.error = bad("The request head has a control character.");
        return result;
      }
      continue;
    }
    if (scanned == 0 || bytes[scanned - 1] != '\r') {
      result.error = bad("A line of the request head ends with a bare LF.");
      return result;
    }
    if (scanned >= 3 && bytes[scanned - 2] == '\n') {
      result.end = ++scanned;
      return result;
    }
  }
  if (scanned >= limits.max_head_bytes) result.error = HttpError{431, "The request head is too large."};
  return result;
}

std::optional<HttpError> parse_head(std::string_view head, const HttpLimits& limits, HttpRequest& request) {
  bool first = true;
  while (!head.empty()) {
    const std::size_t end = head.find("\r\n");
    if (end == std::string_view::npos) return bad("The request head is malformed.");
    const std::string_view line = head.substr(0, end);
    head.remove_prefix(end + 2);
    if (first) {
      if (auto error = parse_request_line(line, limits, request)) return error;
      request.keep_alive = request.minor_version == 1;
      first = false;
      continue;
    }
    if (line.empty()) break;
    if (line.front() == ' ' || line.front() == '\t') return bad("The request head has a folded line.");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return bad("The request head has a malformed header name.");
    if (request.headers.size() >= limits.max_headers)
      return HttpError{431, "The request has too many headers."};
    const std::string name = lowered(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (auto error = take_header(name, value, request)) return error;
    request.headers.emplace_back(name, value);
  }
  if (request.chunked && request.content_length)
    return bad("The request has both Content-Length and Transfer-Encoding.");
  if (request.chunked && request.minor_version == 0) return bad("HTTP/1.0 has no Transfer-Encoding.");
  if (request.minor_version == 1 && request.header("host").empty()) return bad("The Host header is missing.");
  // RFC 9112 gives the target precedence; requests that name two hosts are refused instead.
  if (!request.authority.empty() && !request.header("host").empty() &&
      lowered(request.header("host")) != request.authority)
    return bad("The request target and the Host header name two hosts.");
  return std::nullopt;
}

}  // namespace pagoda
