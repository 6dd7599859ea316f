#pragma once
// PrefixIndex: finds the row of a KV group that holds given tokens behind a given beginning. A row is known
// by a hash chained over (model, salt) and all tokens up to its end; the pool maps hashes to rows. To be sure
// of a hit it can compare the row's tokens, too.
// It does not know sequences; what is worth publishing is decided by prefix_cache.h and state_cache.h.
// Source: vLLM's automatic prefix caching. Threads: none; owned by the engine thread.
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
  std::int32_t num_blocks = 0;  // that the pool may come to have
  std::int32_t hash_bits = 256;
  bool verify_hits = false;
};

class PrefixIndex {
 public:
  PrefixIndex(const PrefixIndexConfig& config, BlockPool& pool);  // borrows pool

  BlockHash root(std::string_view salt) { return hasher_.root(salt); }
  // The hash of `tokens` behind the row with hash `parent`, or behind a root.
  BlockHash next(const BlockHash& parent, std::span<const TokenId> tokens);

  // The group's row under this hash, in use or cached.
  std::optional<BlockId> find(const BlockHash& hash, std::size_t group) const {
    return pool_.find_cached(hash, static_cast<std::int32_t>(group));
  }
  // The same, whose tokens are `content` if hits are verified.
  std::optional<BlockId> find(const BlockHash& hash, std::size_t group,
                              std::span<const TokenId> content) const;
  // find(), with a reference for the caller, with this claim.
  BlockId acquire(const BlockHash& hash, std::size_t group, const CacheClaim& claim);
  // False: another row has the hash already, which has one more user then.
  bool publish(BlockId row, const BlockHash& hash, std::size_t group, std::span<const TokenId> content,
               const CacheClaim& claim);
  bool verifies() const { return verify_hits_; }

  // Beside the pool, rows with these keys can be had from tiers. Borrowed; null: from none.
  struct InTiers {
    CacheOwner owner;
    TierSet tiers = 0;  // that have it, as far as it is known which
  };
  using TierKeys = std::unordered_map<TierKey, InTiers, TierKeyHasher>;
  void set_tiers(const TierKeys* keys) { tiers_ = keys; }
  enum class In { pool, pool_or_tier };
  // Whether find() finds the row, or a tier has it.
  bool has(const BlockHash& hash, std::size_t group, std::span<const TokenId> content, In in) const {
    return find(hash, group, content).has_value() || (in == In::pool_or_tier && in_tier(hash, group));
  }
  bool in_tier(const BlockHash& hash, std::size_t group) const {
    return tiers_ != nullptr && tiers_->contains(tier_key(hash, group));
  }
  static TierKey tier_key(const BlockHash& hash, std::size_t group) {
    return {.chain = hash.words, .group = static_cast<std::int32_t>(group)};
  }
  // The tokens of a published row, if hits are verified.
  std::span<const TokenId> content_of(BlockId row) const;

 private:
  const std::int32_t block_size_, hash_bits_;
  const bool verify_hits_;
  BlockPool& pool_;
  BlockHasher hasher_;
  // Tokens of each published row, at its first page, and how many there are; if hits are verified.
  std::vector<TokenId> content_;
  std::vector<std::int32_t> content_sizes_;
  const TierKeys* tiers_ = nullptr;
};

}  // namespace pagoda
