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
#include <vector>

#include "kv_cache/block_hash.h"
#include "kv_cache/block_pool.h"

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
  // find(), with a reference for the caller.
  BlockId acquire(const BlockHash& hash, std::size_t group);
  // False: another row has the hash already.
  bool publish(BlockId row, const BlockHash& hash, std::size_t group, std::span<const TokenId> content);
  bool verifies() const { return verify_hits_; }

 private:
  const std::int32_t block_size_, hash_bits_;
  const bool verify_hits_;
  BlockPool& pool_;
  BlockHasher hasher_;
  std::vector<TokenId> content_;  // tokens of each published row, at its first page; if hits are verified
};

}  // namespace pagoda
