#include "server/http_response.h"

#include <charconv>

#include "base/strings.h"
#include "server/protocols.h"

namespace pagoda {
namespace {

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

std::string common_head(const HttpResponse& response, const ResponseFraming& framing) {
  std::string out = concat("HTTP/1.1 ", response.status, " ", reason_phrase(response.status), "\r\n");
  for (const auto& [name, value] : response.headers) out.append(concat(name, ": ", value, "\r\n"));
  out.append("x-content-type-options: nosniff\r\n");
  const bool keep = framing.keep_alive && !response.close;
  if (!keep)
    out.append("connection: close\r\n");
  else if (framing.minor_version == 0)
    out.append("connection: keep-alive\r\n");
  return out;
}

}  // namespace

std::string write_head(const HttpResponse& response, const ResponseFraming& framing) {
  std::string out = common_head(response, framing);
  if (response.status != 204 && response.status != 304) {
    if (!response.content_type.empty()) out.append(concat("content-type: ", response.content_type, "\r\n"));
    out.append(concat("content-length: ", response.body.size(), "\r\n"));
  }
  return out.append("\r\n");
}

std::string write_stream_head(const HttpResponse& response, const ResponseFraming& framing) {
  std::string out = common_head(response, framing);
  out.append(concat("content-type: ", response.content_type, "\r\n"));
  if (framing.minor_version == 1) out.append("transfer-encoding: chunked\r\n");
  return out.append("\r\n");
}

std::string write_response(const HttpResponse& response, const ResponseFraming& framing) {
  std::string out = write_head(response, framing);
  if (!framing.head_only) out.append(response.body);
  return out;
}

void append_chunk(std::string& out, std::string_view data) {
  if (data.empty()) return;
  char size[20];
  const auto end = std::to_chars(size, size + sizeof size, data.size(), 16).ptr;
  out.append(size, end).append("\r\n").append(data).append("\r\n");
}

HttpResponse error_response(const ApiError& error, const Protocol* protocol) {
  HttpResponse response;
  response.status = error.status;
  response.body = (protocol != nullptr ? *protocol : *all_protocols().front()).error_body(error);
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("retry-after", "1");
  return response;
}

HttpResponse error_response(const Status& error, const Protocol* protocol) {
  return error_response(api_error(error), protocol);
}

}  // namespace pagoda
