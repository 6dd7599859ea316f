#pragma once
// KvManager: which sequence holds which KV blocks, as a scheduler needs it in each step. Three managers:
// paged (§4.2-4.5), virtual (vAttention) and reserved (Orca/FasterTransformer). Ids and counts only; the
// bytes live in model_runner/kv_storage.h. Sharing, swapping and inspection are interfaces of their own
// beside it. "Full" is a normal answer, which the scheduler meets by preempting.
// Threads: owned by the engine thread; geometry(), num_blocks() and check_alone() are safe from any.
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kv_cache/cache_use.h"
#include "kv_cache/kv_geometry.h"
#include "kv_cache/kv_inspection.h"
#include "kv_cache/kv_sharing.h"
#include "kv_cache/kv_swap.h"
#include "kv_cache/kv_tiering.h"
#include "request/block_copy.h"
#include "request/ids.h"
#include "request/kv_groups.h"
#include "request/page_ops.h"

namespace pagoda {

// The kernels' view of a sequence: its blocks for the first KV group from row `first_row` on, and for the
// other groups.
struct KvTables {
  std::span<const BlockId> blocks = {};
  std::int32_t first_row = 0;
  std::span<const KvTable> more = {};
};

class KvManager {
 public:
  virtual ~KvManager() = default;
  KvManager(const KvManager&) = delete;
  KvManager& operator=(const KvManager&) = delete;

  const KvGeometry& geometry() const { return geometry_; }
  KvSharing& sharing() { return sharing_; }
  const KvSharing& sharing() const { return sharing_; }
  KvSwap& swap() { return swap_; }
  const KvSwap& swap() const { return swap_; }
  const KvInspection& inspection() const { return inspection_; }
  KvTiering& tiering() { return tiering_; }
  const KvTiering& tiering() const { return tiering_; }

  virtual std::int64_t num_blocks() const = 0;
  virtual std::int64_t num_free_blocks() const = 0;
  // Free blocks that are not set aside by promises; below 0 for a moment after add_sequence().
  virtual std::int64_t num_available_blocks() const { return num_free_blocks(); }
  // Why sequences of `num_tokens` tokens that need `num_blocks` together can never run, though the pool has
  // that many blocks; ok if they can.
  virtual Status check_alone(std::int64_t /*num_sequences*/, std::int64_t /*num_tokens*/,
                             std::int64_t /*num_blocks*/) const {
    return ok_status();
  }

  // Creates a sequence and maps onto it the longest cached prefix of `tokens`, less the last token, which
  // must be computed. Returns how many tokens that is. The blocks it takes may be set aside for others:
  // num_available_blocks() is below 0 then, and the sequence has to be freed again. `allow_cache` is false
  // for requests that need the logits of every prompt token.
  virtual std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                                    bool allow_cache) = 0;
  // Promises that `id` can grow from what it has computed to `num_tokens` tokens, by `chunk` tokens a step:
  // the blocks it still lacks are set aside. False, with nothing changed: there are too few.
  [[nodiscard]] virtual bool promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) = 0;
  virtual std::int64_t pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const = 0;
  // How far grow() gets on the way to `num_tokens`: to a block's border or to the end.
  virtual std::int32_t most_tokens(SequenceId, std::int32_t num_tokens) { return num_tokens; }
  // Blocks that grow(id, num_tokens) would take from the free ones.
  virtual std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const = 0;
  // Makes room for tokens up to `num_tokens` in total; false, with nothing changed, when full. Appends the
  // copy-on-write copies that must run before the step.
  [[nodiscard]] virtual bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) = 0;
  // Whether grow() and swap_in() are sure to get `num_blocks` of the free blocks for sequences of these
  // lengths: a manager that has to create or map them first may fail.
  [[nodiscard]] virtual bool make_ready(std::int64_t num_blocks,
                                        std::span<const std::int32_t> /*num_tokens*/) {
    return num_blocks <= num_free_blocks();
  }
  // After a step: tokens[0, num_computed) have K/V now. Publishes blocks that became full.
  virtual void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) = 0;
  // Gives up the room behind `num_tokens` tokens, not fewer than are computed: drafts were rejected.
  virtual void shrink(SequenceId, std::int32_t /*num_tokens*/) {}
  virtual void free(SequenceId id) = 0;

  // Valid from one grow() to the next; not for a swapped sequence.
  virtual KvTables tables(SequenceId id) const = 0;
  // Appends the copies of recurrent states that the step makes in passing for the batch's sequence number
  // `index`, which gets to `num_tokens` tokens, drafts apart. Call it after all sequences have grown.
  virtual void copy_states(SequenceId, std::int32_t /*index*/, std::int32_t /*num_tokens*/,
                           std::vector<StateCopy>&) {}
  // Moves out the page mappings decided since the last call, for a batch that will run.
  virtual void take_page_mappings(std::vector<PageMapping>& /*now*/, std::vector<PageMapping>& /*ahead*/) {}

 protected:
  // The interfaces are the manager's own bases or members.
  KvManager(KvGeometry geometry, KvSharing& sharing, KvSwap& swap, KvInspection& inspection,
            KvTiering& tiering)
      : geometry_(std::move(geometry)),
        sharing_(sharing),
        swap_(swap),
        inspection_(inspection),
        tiering_(tiering) {}

 private:
  const KvGeometry geometry_;
  KvSharing& sharing_;
  KvSwap& swap_;
  KvInspection& inspection_;
  KvTiering& tiering_;
};

}  // namespace pagoda
