#pragma once
// KvSequence: the paged manager's data for one sequence, one part for each class that works on it. Plain data
// without rules of its own.
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

// A copy of a state that a step makes, as of the end of `rows` full rows.
struct StateSnapshot {
  std::int32_t rows = 0;
  BlockId row{};
};

struct KvSequence {
  BlockTable table;
  std::string variant;  // as in CacheUse

  // For the prefix cache (prefix_cache.h).
  CacheClaim claim;                               // on the rows that it publishes and finds
  std::shared_ptr<const RequestAdapter> adapter;  // its rows are computed with it; null: none
  BlockHash root;                                 // start of the hash chain: model and salt
  BlockHash chain;                    // hash of the last full row in the chain; the root if there is none
  std::int32_t num_hashed = 0;        // full rows in the chain
  std::vector<BlockHash> hashes;      // all hashes; only if there are anchors
  std::vector<TokenId> content;       // their tokens; only if hits are verified
  std::vector<std::int32_t> anchors;  // ascending, in rows: where windows and states are published

  // For cached states (state_cache.h).
  std::vector<TokenId> tail;  // computed tokens after the last full row
  std::vector<StateSnapshot> snapshots;
  std::optional<BlockHash> origin;      // the cached state that it started from
  std::optional<BlockId> latest_state;  // the last state that it published
  bool copying = false;                 // rows were copied for a step that has not been computed yet
  bool forked = false;                  // is a fork, or has been forked

  // Prefix cache statistics, pending until the sequence first gets blocks.
  std::int64_t queried = 0, hit = 0, brought = 0;
};

}  // namespace pagoda
