#pragma once
// PrefixCache: decides which rows a sequence publishes for later ones, and finds the rows that a new sequence
// can start with. A hit of L tokens takes the full-attention rows of [0, L) and, of each window group, the
// rows visible to the next position. Window rows would be gone when a conversation continues, and are useless
// in the middle of a text; so they are published only at *anchors*: the last row boundary before a prompt's
// end, a sequence's end, points where a hit could have gone further than its windows allowed (a branch), and
// points that other sequences wait for. States are kept there, too (state_cache.h). Source: vLLM's automatic
// prefix caching. Threads: none; owned by the engine thread.
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
  // Borrows all arguments; `states` is null without recurrent layers.
  PrefixCache(const KvGeometry& geometry, BlockTables& tables, PrefixIndex& index, StateCache* states,
              BlockPool& pool);

  // Starts the hash chain of a new sequence, and sets the anchor at the end of its prompt.
  void begin(KvSequence& sequence, std::span<const TokenId> prompt, const CacheUse& use);
  // The rows of the longest prefix of `tokens`, without the last token, that the pool and the tiers have
  // together; the first group's rows first, from the beginning on. Empty if the pool alone has as much.
  struct Row {
    BlockHash hash;
    std::size_t group = 0;
    std::vector<TokenId> content;
    std::optional<BlockHash> parent = std::nullopt, root = std::nullopt;  // as in on_stored()
    CacheClaim claim = {};
    std::shared_ptr<const RequestAdapter> adapter = nullptr;
  };
  struct Reach {
    std::vector<Row> rows;
    std::int32_t num_tokens = 0, num_in_pool = 0;
  };
  Reach reach_with_tiers(std::span<const TokenId> tokens, std::string_view salt);
  // Keys of the rows of `tokens` after the prefix that the pool and the tiers have together, unless one of
  // them is known to have the row; from the beginning on, at most `limit`. A tail that fills no row is not
  // included.
  std::vector<TierKey> missing_keys(std::span<const TokenId> tokens, std::string_view salt,
                                    std::size_t limit);
  // Publishes a row that a tier has delivered.
  void publish_arrived(BlockId row, const Row& of);

  // Gives the sequence, which holds nothing yet, the longest cached prefix of `tokens`, without the last
  // token, which must be computed.
  void map(KvSequence& sequence, std::span<const TokenId> tokens);
  // Like map(), for a sequence that starts with `num_tokens` tokens of another sequence's table.
  void map_shared(KvSequence& sequence, std::span<const TokenId> tokens);
  // Adds an anchor, since other sequences will ask for this many tokens.
  void add_anchor(KvSequence& sequence, std::int32_t num_tokens) const;

  // Called after a step: publishes the rows of `tokens` that became full.
  void publish(KvSequence& sequence, std::span<const TokenId> tokens);
  // Releases the rows of a sequence, after they have left its account, in the best order for the cache.
  void release(KvSequence& sequence);

  void set_observer(CacheObserver* observer);
  CacheObserver* observer() const { return observer_; }  // null: none

 private:
  struct Hit;
  // Finds the number of full rows cached for every group, and the hashes of all rows cached for the first
  // group.
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
