#pragma once
// Request: the input of the engine. Tokens only; the submitter keeps the text.
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
  std::shared_ptr<const TokenConstraintFactory> constraint;  // null: unconstrained
  std::shared_ptr<const RequestAdapter> adapter;             // null: the base model
  std::int32_t priority = 0;  // lower runs first under --scheduling-policy priority
  std::string cache_salt;     // prefix-cache hits only between requests with equal salts
  CacheHint cache_hint;
  std::string tenant;       // charged for the request under a fair order; empty: no tenant
  std::int32_t weight = 1;  // the tenant's relative share, at least 1
  TimeNs arrival_time = 0;
  TimeNs deadline = 0;  // on the engine's clock; an unfinished request is aborted then; 0: none
  std::optional<std::int32_t> data_parallel_rank;  // engine that must run the request; absent: any
  bool follows = false;  // the first request of the same call was accepted: never refused for queue time
};

}  // namespace pagoda
