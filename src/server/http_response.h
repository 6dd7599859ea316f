#pragma once
// A whole response, or the head of a stream and its chunks. Text only, no sockets.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/protocol.h"

namespace pagoda {

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // besides the ones every response has
  bool close = false;                                        // the connection ends after it
};

struct ResponseFraming {
  int minor_version = 1;
  bool keep_alive = true;
  bool head_only = false;  // HEAD, 204
};

// Status line and headers of a response whose body follows. Sets Content-Length, Connection, and nosniff.
std::string write_head(const HttpResponse& response, const ResponseFraming& framing);
// The head of an answer whose length is not known: chunked for HTTP/1.1, ended by closing for 1.0.
std::string write_stream_head(const HttpResponse& response, const ResponseFraming& framing);
// A whole response; for those that are short.
std::string write_response(const HttpResponse& response, const ResponseFraming& framing);
// `data` as one chunk; nothing for empty data, which would end the stream.
void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// In the form of `protocol`, or of the first one of all. 429 and 503 say when to try again.
HttpResponse error_response(const ApiError& error, const Protocol* protocol = nullptr);
HttpResponse error_response(const Status& error, const Protocol* protocol = nullptr);

}  // namespace pagoda
