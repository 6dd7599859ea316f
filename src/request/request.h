#pragma once
// Request: what is handed to the engine. Tokens only: text stays with whoever submitted it.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "request/cache_hint.h"
#include "request/ids.h"
#include "request/request_adapter.h"
#include "request/sampling_params.h"
#include "request/token_constraint.h"
#include "request/work.h"

namespace pagoda {

struct Request {
  RequestId id{};
  std::vector<TokenId> prompt_token_ids;  // at least one
  SamplingParams sampling;
  Work work;
  std::shared_ptr<const TokenConstraintFactory> constraint;  // null: everything may be said
  std::shared_ptr<const RequestAdapter> adapter;             // null: the model as it is
  std::int32_t priority = 0;  // lower runs first under --scheduling-policy priority
  std::string cache_salt;     // prefix-cache hits only among equal salts
  CacheHint cache_hint;
  std::string tenant;       // whose share of the machine it takes under a fair order; empty: nobody's
  std::int32_t weight = 1;  // the tenant's share beside the others', at least 1
  TimeNs arrival_time = 0;
  TimeNs deadline = 0;  // by the engine's clock: the request is aborted then if it has not ended; 0: none
  std::optional<std::int32_t> data_parallel_rank;  // the engine that it goes to; absent: any
  bool follows = false;  // its call's first request has been admitted: not refused for its wait
};

}  // namespace pagoda
