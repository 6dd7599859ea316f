#pragma once
// KvSequence: what the paged manager keeps of one sequence, a part for each class that works on it. Plain
// data without rules of its own.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv_cache/block_hash.h"
#include "kv_cache/block_tables.h"
#include "request/cache_claim.h"
#include "request/request_adapter.h"

namespace pagoda {

// A copy of a state that a step makes: it is the state after so many full rows.
struct StateSnapshot {
  std::int32_t rows = 0;
  BlockId row{};
};

struct KvSequence {
  BlockTable table;
  std::string variant;  // as in CacheUse

  // For the prefix cache (prefix_cache.h).
  CacheClaim claim;                               // on the rows that it publishes and finds
  std::shared_ptr<const RequestAdapter> adapter;  // that its rows are computed with; null: none
  BlockHash root;                                 // start of the hash chain: model and salt
  BlockHash chain;                    // hash of the last full row in the chain; the root when there is none
  std::int32_t num_hashed = 0;        // full rows in the chain
  std::vector<BlockHash> hashes;      // all hashes, where there are anchors
  std::vector<TokenId> content;       // their tokens, where hits are verified
  std::vector<std::int32_t> anchors;  // ascending, in rows: where windows and states are published

  // For cached states (state_cache.h).
  std::vector<TokenId> tail;  // computed tokens behind the last full row
  std::vector<StateSnapshot> snapshots;
  std::optional<BlockHash> origin;      // the cached state that it began from
  std::optional<BlockId> latest_state;  // the last one that it has published
  bool copying = false;                 // rows were copied for a step that is not computed yet
  bool forked = false;                  // it is a fork, or has one

  // Prefix cache statistics, until it first gets room.
  std::int64_t queried = 0, hit = 0, brought = 0;
};

}  // namespace pagoda
