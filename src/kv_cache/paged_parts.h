#pragma once
// PagedParts: the objects that make up paged memory, and the operations shared by the classes that work on
// them: steps (paged_steps.h), sharing, swapping and inspection. Each object borrows the ones declared above
// it. Invariant: once a sequence has grown, a row that it may write into (at or after its num_computed
// tokens) is held by no other table and is not published. Source: PagedAttention (SOSP'23) §4.2-4.5. Threads:
// none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv_cache/eviction_order.h"
#include "kv_cache/kv_geometry.h"
#include "kv_cache/kv_inspection.h"
#include "kv_cache/kv_sequences.h"
#include "kv_cache/kv_tiers.h"
#include "kv_cache/page_supply.h"
#include "kv_cache/pinned_prefixes.h"
#include "kv_cache/prefix_cache.h"
#include "kv_cache/promises.h"
#include "kv_cache/swap_space.h"

namespace pagoda {

struct PagedKvConfig {
  std::int32_t block_size = 16;      // at least 1; the same for every row
  std::int32_t num_blocks = 0;       // pages; > 0
  std::int32_t num_swap_blocks = 0;  // at most num_blocks
  bool enable_prefix_caching = true;
  bool tiers = false;  // with a prefix cache: rows also go to tiers (kv_tiers.h); hits are verified then
  bool peers = false;  // with tiers: peers are asked for rows that no tier has
  Eviction eviction = Eviction::lru;
  std::string model_id = {};  // part of every hash
#ifdef NDEBUG
  bool verify_hits = false;  // compare the tokens of a block with the requested ones on every hit
#else
  bool verify_hits = true;
#endif
  std::int32_t hash_bits = 256;  // tests force collisions with fewer
  // Absent: one full-attention group with one page per row. A full-attention group comes first, if any.
  std::optional<std::vector<KvGroup>> groups = std::nullopt;
  bool whole_prompts = false;  // prompts are computed in one step, whatever their length
};

struct PagedParts {
  // All pages exist.
  explicit PagedParts(PagedKvConfig config);
  // `num_created` pages exist; the others are created on demand (page_supply.h).
  PagedParts(PagedKvConfig config, std::int32_t num_created, PageSupply::MayCreate may_create);
  PagedParts(const PagedParts&) = delete;
  PagedParts& operator=(const PagedParts&) = delete;

  const PagedKvConfig config;
  const KvGeometry geometry;
  BlockPool pool;
  PageSupply supply;
  BlockTables tables;
  PrefixIndex index;
  std::optional<StateCache> states;  // absent without recurrent layers
  PrefixCache cache;
  Promises promises;
  PinnedPrefixes pinned;
  std::optional<SwapSpace> swap_space;
  KvSequences sequences;
  PrefixCacheStats stats;
  std::optional<KvTiers> tiers;  // absent: no tiers

  const std::vector<KvGroup>& groups() const { return geometry.groups(); }
  bool caches_prefixes() const { return config.enable_prefix_caching; }
  std::int64_t num_available() const { return supply.num_free() - promises.set_aside(); }
  // Releases all rows of the sequence, in the pool or in the swap space.
  void release_rows(KvSequence& sequence);
  void free(SequenceId id);
};

}  // namespace pagoda
