#pragma once
// http_call(): one GET, HEAD or POST over a connection of its own, the answer's body handed on as it comes.
// Follows no redirect and tries nothing twice: hub_client.h does. Units: bytes. Errors: those of
// OutgoingConnection; unavailable for an answer that breaks off or is not HTTP. What was handed on before an
// error stands. Threads: any. Bounds: 64 KiB of headers, 1 MiB of framing; the body is its taker's business.
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
  bool head = false;       // only the headers
  std::string json = {};   // not empty: a POST with this body
  std::string token = {};  // as "Authorization: Bearer"; empty: none
  std::int64_t from = 0;   // as "Range: bytes=N-"; 0: the whole
  int timeout_s = 30;      // without a byte from the other side
};

struct HttpHead {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in small letters

  // The first of that name; empty: none.
  std::string_view field(std::string_view name) const;
};

// Is asked first with the headers, then with each piece of the body. An error ends the exchange and is its
// result.
struct BodyTaker {
  std::function<Status(const HttpHead&)> begin;
  std::function<Status(std::string_view)> piece;
};

Result<HttpHead> http_call(const HttpCall& call, const BodyTaker& taker);

}  // namespace pagoda
