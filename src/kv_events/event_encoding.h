#pragma once
// A batch of cache events and its encoding, in the form of vLLM's KVEventBatch: an array of maps (until June
// 2026, vLLM encoded events as arrays, which some of today's readers refuse).
//     [ts, [event, …], data_parallel_rank]
//     {type: "BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium,
//      lora_name, extra_keys}
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

// The published hash of a block: the last 8 bytes of its SHA-256 as a big-endian number, as in vLLM.
std::uint64_t external_hash(const BlockHash& hash);

// vLLM's name for the memory that the engine itself reads, whatever its kind.
inline constexpr std::string_view kPoolMedium = "GPU";

struct CacheEvent {
  enum class Kind { stored, removed, cleared };
  Kind kind = Kind::stored;
  std::vector<std::uint64_t> hashes;    // for stored: each block's parent is the previous one
  std::optional<std::uint64_t> parent;  // parent of the first block; nullopt if it begins a sequence
  std::string salt;                     // represents the cache salt of blocks that only some requests may use
  std::vector<TokenId> tokens;          // tokens of all these blocks; empty for events of tiers
  std::int32_t lora_id = 0;             // adapter that the blocks were computed with; 0: none
  std::string lora_name = {};
  std::string medium = std::string(kPoolMedium);
};

struct CacheEventBatch {
  std::int64_t number = 0;  // from 0; a gap means that batches were dropped
  double unix_seconds = 0;
  std::int32_t data_parallel_rank = 0;
  std::vector<CacheEvent> events;
};

std::string encode(const CacheEventBatch& batch, std::int32_t block_size);

}  // namespace pagoda
