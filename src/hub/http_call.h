#pragma once
// http_call(): one GET, HEAD or POST over a separate connection; the response body is passed on as it
// arrives. Follows no redirects and never retries: hub_client.h does. Units: bytes. Errors: those of
// OutgoingConnection; unavailable for a response that is truncated or not HTTP. Data passed on before an
// error remains valid. Threads: any. Bounds: 64 KiB of headers, 1 MiB of framing; the consumer bounds the
// body.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "hub/url.h"

namespace pagoda {

struct HttpCall {
  Url url;
  bool head = false;       // request only the headers
  std::string json = {};   // if not empty, POST this body
  std::string token = {};  // sent as "Authorization: Bearer"; empty: none
  std::int64_t from = 0;   // sent as "Range: bytes=N-"; 0: the whole file
  int timeout_s = 30;      // maximum time without a byte from the server
};

struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case

  // The first field of that name; empty if there is none.
  std::string_view field(std::string_view name) const;
};

// Called first with the headers, then with each piece of the body. An error ends the exchange and becomes its
// result.
struct BodyTaker {
  std::function<Status(const HttpHead&)> begin;
  std::function<Status(std::string_view)> piece;
};

Result<HttpHead> http_call(const HttpCall& call, const BodyTaker& taker);

}  // namespace pagoda
