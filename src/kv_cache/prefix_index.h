#pragma once
// PrefixIndex: finds the row of a KV group that holds given tokens after a given prefix. A row is identified
// by a hash chained over (model, salt) and all tokens up to its end; the pool maps hashes to rows.
// Optionally, hits are verified by comparing the row's tokens. It knows no sequences; prefix_cache.h and
// state_cache.h decide what to publish. Source: vLLM's automatic prefix caching. Threads: none; owned by the
// engine thread.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv_cache/block_hash.h"
#include "kv_cache/block_pool.h"
#include "request/tier_moves.h"

namespace pagoda {

struct PrefixIndexConfig {
  std::string_view model_id;
  std::int32_t block_size = 16;
  std::int32_t num_blocks = 0;  // maximum that the pool may grow to
  std::int32_t hash_bits = 256;
  bool verify_hits = false;
};

class PrefixIndex {
 public:
  PrefixIndex(const PrefixIndexConfig& config, BlockPool& pool);  // borrows pool

  BlockHash root(std::string_view salt) { return hasher_.root(salt); }
  // The hash of `tokens` after the row with hash `parent`, or after a root.
  BlockHash next(const BlockHash& parent, std::span<const TokenId> tokens);

  // The group's row with this hash, in use or cached.
  std::optional<BlockId> find(const BlockHash& hash, std::size_t group) const {
    return pool_.find_cached(hash, static_cast<std::int32_t>(group));
  }
  // Like find(), and the row's tokens must equal `content` if hits are verified.
  std::optional<BlockId> find(const BlockHash& hash, std::size_t group,
                              std::span<const TokenId> content) const;
  // Like find(), for a row that must exist; takes a reference for the caller, with this claim.
  BlockId acquire(const BlockHash& hash, std::size_t group, const CacheClaim& claim);
  // Returns false if another row already has the hash; that row gets one more user.
  bool publish(BlockId row, const BlockHash& hash, std::size_t group, std::span<const TokenId> content,
               const CacheClaim& claim);
  bool verifies() const { return verify_hits_; }

  // Keys of rows that are available from tiers in addition to the pool. Borrowed; null: none.
  struct InTiers {
    CacheOwner owner;
    TierSet tiers = 0;  // tiers that have the row, as far as known
  };
  using TierKeys = std::unordered_map<TierKey, InTiers, TierKeyHasher>;
  void set_tiers(const TierKeys* keys) { tiers_ = keys; }
  enum class In { pool, pool_or_tier };
  // True if find() finds the row, or `in` includes tiers and a tier has it.
  bool has(const BlockHash& hash, std::size_t group, std::span<const TokenId> content, In in) const {
    return find(hash, group, content).has_value() || (in == In::pool_or_tier && in_tier(hash, group));
  }
  bool in_tier(const BlockHash& hash, std::size_t group) const {
    return tiers_ != nullptr && tiers_->contains(tier_key(hash, group));
  }
  static TierKey tier_key(const BlockHash& hash, std::size_t group) {
    return {.chain = hash.words, .group = static_cast<std::int32_t>(group)};
  }
  // The tokens of a published row; requires verified hits.
  std::span<const TokenId> content_of(BlockId row) const;

 private:
  const std::int32_t block_size_, hash_bits_;
  const bool verify_hits_;
  BlockPool& pool_;
  BlockHasher hasher_;
  // Tokens of each published row, stored at its first page, and their number; only if hits are verified.
  std::vector<TokenId> content_;
  std::vector<std::int32_t> content_sizes_;
  const TierKeys* tiers_ = nullptr;
};

}  // namespace pagoda
