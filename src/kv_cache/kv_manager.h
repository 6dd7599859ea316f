#pragma once
// KvManager: who owns which KV block. One interface for the scheduler over three managers: paged (the
// paper, §4.2-4.5), virtual (vAttention) and reserved (Orca/FasterTransformer). Ids and counts only; the
// bytes live in model_runner/kv_storage.h. "Full" is a normal answer, met by preempting.
// Nobody else divides by a block size: how many pages tokens take, where they may be shared and how far a
// sequence can grow are questions to the manager.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "request/block_copy.h"
#include "request/ids.h"
#include "request/kv_groups.h"
#include "request/kv_usage.h"
#include "request/page_ops.h"
#include "request/pool_event.h"

namespace pagoda {

class CacheObserver;

enum class Fit { now, later, never };

// In tokens; a sequence counts when it first gets room, not while it waits for it.
struct PrefixCacheStats {
  std::int64_t queries = 0, hits = 0;
};

// What moving sequences to the swap space or back would copy, and how many tokens computing them again would
// take where they share what they share now.
struct SwapCost {
  std::int64_t pages = 0, tokens = 0;
};

class KvManager {
 public:
  virtual ~KvManager() = default;
  virtual std::string_view name() const = 0;  // as --kv-manager has it
  virtual std::int32_t block_size() const = 0;
  virtual std::int64_t num_blocks() const = 0;
  virtual std::int64_t num_free_blocks() const = 0;
  // Of these, what is not set aside for those who were promised room.
  virtual std::int64_t num_available_blocks() const { return num_free_blocks(); }
  // What the model's layers keep; pages are counted over all of them.
  virtual std::span<const KvGroup> groups() const = 0;

  // Pages that `num_sequences` sequences of `num_tokens` tokens take at once, at most, the first `num_shared`
  // of them held in common. They are computed in small steps, or whole. Safe from any thread, as the two
  // below are.
  virtual std::int64_t pages_alone(std::int64_t num_tokens, std::int64_t num_sequences = 1,
                                   std::int64_t num_shared = 0, bool whole_prompt = false) const;
  // Tokens that one sequence can have with so many pages.
  virtual std::int64_t tokens_alone(std::int64_t num_pages) const;
  // Pages that one sequence takes for `num_tokens` more tokens, at most, wherever it stands.
  virtual std::int64_t pages_to_go_on(std::int64_t num_tokens) const;
  // Of the first `num_tokens` tokens of `id`, so many can stand in another sequence's table too, once they
  // are computed.
  virtual std::int32_t shareable(SequenceId id, std::int32_t num_tokens) const;
  // Others will ask for the first `num_tokens` tokens of `id`, as shareable() gives them: what it computes of
  // them is to be found then.
  virtual void keep_shareable(SequenceId, std::int32_t /*num_tokens*/) {}

  // Creates the table of a new sequence and maps onto it the longest cached prefix of `tokens` (less the
  // last token, which must be computed). Returns the number of tokens so taken. What it takes may be counted
  // as set aside for others: num_available_blocks() is below 0 then, and it has to go again. `allow_cache` is
  // false for requests that need logits of every prompt token.
  virtual std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, std::string_view salt,
                                    bool allow_cache) = 0;
  // Whether what one sequence has computed is found by others that begin alike.
  virtual bool caches_prefixes() const { return false; }
  // A promise: `id` can get from what it has computed to `num_tokens` tokens (total), by `chunk` tokens in a
  // step. What it still lacks for that is set aside until it is there. False, with nothing changed: there is
  // too little. Nothing is handed out yet.
  [[nodiscard]] virtual bool promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) = 0;
  // Pages that this would set aside.
  virtual std::int64_t pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const = 0;
  // How far grow() would get on the way to `num_tokens`, in whole rows or to the end; what was computed, if
  // not at all.
  virtual std::int32_t most_tokens(SequenceId, std::int32_t num_tokens) { return num_tokens; }
  // Makes room for tokens up to `num_tokens` (total); false, with nothing changed, when full. Appends to
  // `copies` the copy-on-write copies that must run before the step.
  [[nodiscard]] virtual bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) = 0;
  // After a step: tokens[0, num_computed) now have K/V. Publishes blocks that became full.
  virtual void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) = 0;
  // Gives up the room behind `num_tokens` tokens (not fewer than are computed): drafts were wrong.
  virtual void shrink(SequenceId, std::int32_t /*num_tokens*/) {}
  virtual void fork(SequenceId parent, SequenceId child) = 0;  // child shares every block of parent
  // Creates `child` sharing the full blocks among the first `num_tokens` tokens of `parent`, which must be
  // computed; returns how many tokens that is. How a gang gets its sharing back after recomputation. As with
  // add_sequence(), num_available_blocks() may be below 0 then: a state comes from what is cached.
  virtual std::int32_t fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) = 0;
  virtual void free(SequenceId id) = 0;
  // Where the kernels find the sequence: valid once grown, until the next grow(); not of a swapped one.
  virtual std::span<const BlockId> block_table(SequenceId id) const = 0;
  // That is of the first KV group, from this row on; and of the others.
  virtual std::int32_t first_row(SequenceId) const { return 0; }
  virtual std::span<const KvTable> more_tables(SequenceId) const { return {}; }
  // What it holds of the pool for a group; ref_count() and copies speak of these. The same, unless tables are
  // virtual.
  virtual KvTable pages_of(SequenceId id, std::size_t group) const = 0;
  // Copies of the sequence's state that its step makes in passing: it is the batch's sequence `sequence`, and
  // gets to `num_tokens` tokens, drafts apart. Once its other sequences have got their room.
  virtual void copy_states(SequenceId, std::int32_t /*sequence*/, std::int32_t /*num_tokens*/,
                           std::vector<StateCopy>&) {}
  // Moves out the mappings that grow() and others have decided since the last call; for a batch that will
  // run.
  virtual void take_page_mappings(std::vector<PageMapping>&, std::vector<PageMapping>&) {}
  virtual std::int32_t ref_count(BlockId) const { return 1; }
  // For people who look: whether block_table() is of slots in address space and not of the pool; and the
  // pool's blocks that are nobody's and keep their content, the next to be evicted first.
  virtual bool shows_slots() const { return false; }
  virtual void append_cached(std::vector<BlockId>&) const {}

  // Shared prefixes (§4.4, Fig. 10). `holder` becomes a sequence that stands for the prefix `tokens`: it
  // shares the blocks of `parent`, which has computed just these, until unpin_prefix(). add_sequence() maps
  // whoever's tokens start with it onto them, the last block too; the first write into that copies it.
  // False: this manager cannot share.
  [[nodiscard]] virtual bool pin_prefix(SequenceId, SequenceId, std::span<const TokenId>) { return false; }
  virtual void unpin_prefix(SequenceId) {}
  virtual std::int64_t num_pinned_blocks() const { return 0; }  // safe from any thread

  // Swapping (§4.5), all or nothing: the computed K/V of `ids` moves to the swap space, and back into other
  // blocks; one that several of them share moves once, and they share it again. What was allocated for
  // tokens to come is given up. False, with nothing changed: the swap space (or the pool) is full. The
  // copies must run before anything else writes the blocks.
  [[nodiscard]] virtual bool swap_out(std::span<const SequenceId>, std::vector<SwapCopy>&) { return false; }
  [[nodiscard]] virtual bool swap_in(std::span<const SequenceId>, std::vector<SwapCopy>&) { return false; }
  virtual SwapCost swap_cost(std::span<const SequenceId>) const { return {}; }
  virtual std::int64_t num_swap_blocks() const { return 0; }
  virtual std::int64_t num_free_swap_blocks() const { return 0; }

  // Whether grow() and swap_in() are sure to get `num_blocks` of the free blocks, for sequences that have so
  // many tokens each: what counts as free may have to be made ready first, and that may fail.
  [[nodiscard]] virtual bool make_ready(std::int64_t num_blocks,
                                        std::span<const std::int32_t> /*num_tokens*/) {
    return num_blocks <= num_free_blocks();
  }

  // Blocks that grow(id, num_tokens) would take from the free ones.
  virtual std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const = 0;
  // Blocks that freeing all of `ids` would give back.
  virtual std::int64_t blocks_owned_by(std::span<const SequenceId> ids) const = 0;

  // Could `num_tokens` more tokens, over all sequences of a group, be held with the whole pool empty (never),
  // now, or later?
  virtual Fit fit(std::int64_t num_tokens) const = 0;

  // What stands against a group of `num_sequences`, each of up to `num_tokens`, that need `num_blocks`
  // together, even if it is alone, beside the number of blocks. Safe from any thread.
  virtual Status check_alone(std::int64_t /*num_sequences*/, std::int64_t /*num_tokens*/,
                             std::int64_t /*num_blocks*/) const {
    return ok_status();
  }

  virtual KvUsage usage() const = 0;
  virtual PrefixCacheStats prefix_cache_stats() const = 0;
  virtual void clear_prefix_cache() = 0;      // what no sequence uses becomes free
  virtual void check_invariants() const = 0;  // tests and the simulator call it every step

  // Who hears of what the prefix cache holds; null: nobody. Borrowed. Managers without one have nothing to
  // tell.
  virtual void set_cache_observer(CacheObserver*) {}

  // Who hears of blocks that are allocated, freed, evicted and hit; null: nobody. Borrowed.
  void set_observer(PoolObserver* observer) { observer_ = observer; }

 protected:
  void tell(PoolEventKind kind, SequenceId sequence, std::int32_t block, std::int32_t count = 1) const {
    if (observer_ != nullptr)
      observer_->on_pool_event({.kind = kind, .sequence = sequence, .block = block, .count = count});
  }

 private:
  PoolObserver* observer_ = nullptr;
};

}  // namespace pagoda
