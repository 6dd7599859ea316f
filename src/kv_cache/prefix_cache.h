#pragma once
// PrefixCache: which rows a sequence publishes for later ones, and which of them a new sequence begins with.
// A hit of L tokens takes the rows that see everything of [0, L), and of each window the rows that the next
// position sees. The latter would be gone by the time a conversation goes on, or be worth nothing in the
// middle of a text; so they are published at *anchors* only: the last row border before a prompt's end, a
// sequence's end, where a hit could have gone further than its windows allowed (a branch), and where others
// wait for it. States are kept there, too (state_cache.h).
// Source: vLLM's automatic prefix caching. Threads: none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kv_cache/cache_observer.h"
#include "kv_cache/cache_use.h"
#include "kv_cache/state_cache.h"

namespace pagoda {

class PrefixCache {
 public:
  // Borrows all of them; `states` is null where layers have none.
  PrefixCache(const KvGeometry& geometry, BlockTables& tables, PrefixIndex& index, StateCache* states,
              BlockPool& pool);

  // Begins the hash chain of a new sequence, and sets the anchor at the end of its prompt.
  void begin(KvSequence& sequence, std::span<const TokenId> prompt, const CacheUse& use);
  // The rows of the longest prefix of `tokens` that the pool and the tiers have together, less the last
  // token; the first group's first, from the beginning on. Empty: the pool alone has as much.
  struct Row {
    BlockHash hash;
    std::size_t group = 0;
    std::vector<TokenId> content;
    std::optional<BlockHash> parent = std::nullopt, root = std::nullopt;  // as on_stored() has them
    CacheClaim claim = {};
    std::shared_ptr<const RequestAdapter> adapter = nullptr;
  };
  struct Reach {
    std::vector<Row> rows;
    std::int32_t num_tokens = 0, num_in_pool = 0;
  };
  Reach reach_with_tiers(std::span<const TokenId> tokens, std::string_view salt);
  // Rows of `tokens` that neither the pool nor a tier is known to have, behind the prefix that these have
  // together; from the beginning on, `limit` at most. A tail that fills no row is not among them.
  std::vector<TierKey> missing_keys(std::span<const TokenId> tokens, std::string_view salt,
                                    std::size_t limit);
  // Publishes a row that a tier has brought.
  void publish_arrived(BlockId row, const Row& of);

  // Gives the sequence, which holds nothing, the longest cached prefix of `tokens`, less the last token,
  // which must be computed.
  void map(KvSequence& sequence, std::span<const TokenId> tokens);
  // The sequence begins with `num_tokens` tokens of another's table instead.
  void map_shared(KvSequence& sequence, std::span<const TokenId> tokens);
  // Others will ask for so many tokens.
  void add_anchor(KvSequence& sequence, std::int32_t num_tokens) const;

  // After a step: publishes the rows of `tokens` that became full.
  void publish(KvSequence& sequence, std::span<const TokenId> tokens);
  // Gives up the rows of a sequence, whose account has left them, in the order that is best for the cache.
  void release(KvSequence& sequence);

  void set_observer(CacheObserver* observer);
  CacheObserver* observer() const { return observer_; }  // null: nobody

 private:
  struct Hit;
  // How many full rows are cached for every group, and the hashes of all that are cached for the first one.
  Hit find_rows(const KvSequence& sequence, std::span<const TokenId> tokens, PrefixIndex::In in);
  void take(KvSequence& sequence, const Hit& hit);
  void add_row_anchor(KvSequence& sequence, std::int32_t rows) const;
  void publish_anchor(KvSequence& sequence, std::int32_t rows);
  void renew_anchor(const KvSequence& sequence, std::int32_t rows);
  void report_stored(const KvSequence& sequence, std::int32_t row, const BlockHash& parent,
                     std::span<const TokenId> content);

  const KvGeometry& geometry_;
  BlockTables& tables_;
  PrefixIndex& index_;
  StateCache* const states_;
  BlockPool& pool_;
  const bool sees_all_, has_anchors_;
  CacheObserver* observer_ = nullptr;
};

}  // namespace pagoda
