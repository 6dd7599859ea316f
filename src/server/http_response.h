#pragma once
// Writes a whole response, or the head of a stream and its chunks. Text only, no sockets.
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
  std::vector<std::pair<std::string, std::string>> headers;  // in addition to those of every response
  bool close = false;                                        // close the connection after it
};

struct ResponseFraming {
  int minor_version = 1;
  bool keep_alive = true;
  bool head_only = false;  // HEAD, 204
};

// Status line and headers of a response whose body follows. Sets Content-Length, Connection, and nosniff.
std::string write_head(const HttpResponse& response, const ResponseFraming& framing);
// The head of an answer of unknown length: chunked for HTTP/1.1, ended by closing for HTTP/1.0.
std::string write_stream_head(const HttpResponse& response, const ResponseFraming& framing);
// A whole response, if it is short.
std::string write_response(const HttpResponse& response, const ResponseFraming& framing);
// Appends `data` as one chunk. No-op for empty data, since an empty chunk would end the stream.
void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// In the form of `protocol`, or of the first protocol if null. 429 and 503 say when to retry.
HttpResponse error_response(const ApiError& error, const Protocol* protocol = nullptr);
HttpResponse error_response(const Status& error, const Protocol* protocol = nullptr);

}  // namespace pagoda
