#pragma once
// Request: what is handed to the engine. Tokens only: text stays with whoever submitted it.
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "request/ids.h"
#include "request/sampling_params.h"

namespace pagoda {

struct Request {
  RequestId id{};
  std::vector<TokenId> prompt_token_ids;  // at least one
  SamplingParams sampling;
  std::int32_t priority = 0;  // lower runs first under --scheduling-policy priority
  std::string cache_salt;     // prefix-cache hits only among equal salts
  TimeNs arrival_time = 0;
};

}  // namespace pagoda
