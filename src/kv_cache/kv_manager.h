#pragma once
// KvManager: who owns which KV block. One interface for the scheduler over three managers: paged (the
// paper, §4.2-4.5), virtual (vAttention) and reserved (Orca/FasterTransformer). Ids and counts only; the
// bytes live in model_runner/kv_storage.h. "Full" is a normal answer, met by preempting.
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
#include "request/kv_usage.h"
#include "request/page_ops.h"
#include "request/pool_event.h"

namespace pagoda {

enum class Fit { now, later, never };

// In tokens; a sequence counts when it first gets room, not while it waits for it.
struct PrefixCacheStats {
  std::int64_t queries = 0, hits = 0;
};

class KvManager {
 public:
  virtual ~KvManager() = default;
  virtual std::int32_t block_size() const = 0;
  virtual std::int64_t num_blocks() const = 0;
  virtual std::int64_t num_free_blocks() const = 0;

  // Creates the table of a new sequence and maps onto it the longest cached prefix of `tokens` (less the
  // last token, which must be computed). Returns the number of tokens so taken. `allow_cache` is false
  // for requests that need logits of every prompt token.
  virtual std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, std::string_view salt,
                                    bool allow_cache) = 0;
  // Whether what one sequence has computed is found by others that begin alike.
  virtual bool caches_prefixes() const { return false; }
  // Makes room for tokens up to `num_tokens` (total); false, with nothing changed, when full. Appends to
  // `copies` the copy-on-write copies that must run before the step.
  [[nodiscard]] virtual bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) = 0;
  // After a step: tokens[0, num_computed) now have K/V. Publishes blocks that became full.
  virtual void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) = 0;
  // Gives up the room behind `num_tokens` tokens (not fewer than are computed): guesses were wrong.
  virtual void shrink(SequenceId, std::int32_t /*num_tokens*/) {}
  virtual void fork(SequenceId parent, SequenceId child) = 0;  // child shares every block of parent
  // Creates `child` sharing the full blocks among the first `num_tokens` tokens of `parent`, which must be
  // computed; returns how many tokens that is. How a gang gets its sharing back after recomputation.
  virtual std::int32_t fork_prefix(SequenceId parent, SequenceId child, std::int32_t num_tokens) = 0;
  virtual void free(SequenceId id) = 0;
  // Where the kernels find the sequence: valid once grown, until the next grow(); not of a swapped one.
  virtual std::span<const BlockId> block_table(SequenceId id) const = 0;
  // What it holds of the pool; ref_count() and copies speak of these. The same, unless tables are virtual.
  virtual std::span<const BlockId> blocks_of(SequenceId id) const { return block_table(id); }
  // Moves out the mappings that grow() and others have decided since the last call; for a batch that will
  // run.
  virtual void take_page_mappings(std::vector<PageMapping>&, std::vector<PageMapping>&) {}
  virtual std::int32_t ref_count(BlockId) const { return 1; }

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
  // Blocks that either would copy.
  virtual std::int64_t blocks_to_swap(std::span<const SequenceId>) const { return 0; }
  virtual std::int64_t num_swap_blocks() const { return 0; }
  virtual std::int64_t num_free_swap_blocks() const { return 0; }

  // Whether grow() and swap_in() are sure to get `num_blocks` of the free blocks, for sequences whose tables
  // have `num_entries` together: what counts as free may have to be made ready first, and that may fail.
  [[nodiscard]] virtual bool make_ready(std::int64_t num_blocks, std::int64_t /*num_entries*/) {
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
