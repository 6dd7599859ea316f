#pragma once
// A batch of cache events and its bytes, in the form of vLLM's KVEventBatch: an array of maps (vLLM up to
// June 2026 had arrays inside too, which today's readers refuse or take).
//     [ts, [event, …], data_parallel_rank]
//     {type: "BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium,
//     lora_name,
//      extra_keys}
//     {type: "BlockRemoved", block_hashes, medium}    {type: "AllBlocksCleared"}
// Source: vllm.distributed.kv_events and its example of a subscriber. Threads: none.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv_cache/block_hash.h"
#include "request/ids.h"

namespace pagoda {

// A block's name outside: the last 8 bytes of its SHA-256 as a big-endian number, as vLLM gives it.
std::uint64_t external_hash(const BlockHash& hash);

// vLLM's name for what the engine itself can read, whatever memory that is.
inline constexpr std::string_view kPoolMedium = "GPU";

struct CacheEvent {
  enum class Kind { stored, removed, cleared };
  Kind kind = Kind::stored;
  std::vector<std::uint64_t> hashes;    // stored: each block's parent is the one before it
  std::optional<std::uint64_t> parent;  // block before the first; none: it begins a text
  std::string salt;                     // stands for the salt of a text that only some requests find
  std::vector<TokenId> tokens;          // tokens of all these blocks; none in a tier's event
  std::int32_t lora_id = 0;             // the adapter that they are computed with; 0: none
  std::string lora_name = {};
  std::string medium = std::string(kPoolMedium);
};

struct CacheEventBatch {
  std::int64_t number = 0;  // from 0; a gap tells that some were dropped
  double unix_seconds = 0;
  std::int32_t data_parallel_rank = 0;
  std::vector<CacheEvent> events;
};

std::string encode(const CacheEventBatch& batch, std::int32_t block_size);

}  // namespace pagoda
