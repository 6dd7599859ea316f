#pragma once
// KvManager: which sequence holds which KV blocks, as needed by a scheduler in each step. Three managers:
// paged (§4.2-4.5), virtual (vAttention) and reserved (Orca/FasterTransformer). Ids and counts only; the
// bytes live in model_runner/kv_storage.h. Sharing, swapping and inspection are separate interfaces. A full
// pool is a normal result, which the scheduler handles by preempting.
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

// A sequence as seen by the kernels: its blocks in the first KV group from row `first_row` on, and in the
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
  // Free blocks that are not promised; may be below 0 temporarily after add_sequence().
  virtual std::int64_t num_available_blocks() const { return num_free_blocks(); }
  // Explains why sequences of `num_tokens` tokens that need `num_blocks` together can never run even though
  // the pool has that many blocks; ok if they can run.
  virtual Status check_alone(std::int64_t /*num_sequences*/, std::int64_t /*num_tokens*/,
                             std::int64_t /*num_blocks*/) const {
    return ok_status();
  }

  // Creates a sequence that starts with the longest cached prefix of `tokens`, without the last token, which
  // must be computed. Returns the length of the prefix. Its blocks may be promised to others: then
  // num_available_blocks() is below 0, and the sequence has to be freed again. `allow_cache` is false for
  // requests that need the logits of every prompt token.
  virtual std::int32_t add_sequence(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                                    bool allow_cache) = 0;
  // Promises that `id` can grow from its computed tokens to `num_tokens` tokens, by `chunk` tokens per step:
  // the blocks still missing are set aside. Returns false, with nothing changed, if there are too few.
  [[nodiscard]] virtual bool promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) = 0;
  virtual std::int64_t pages_to_promise(SequenceId id, std::int32_t num_tokens, std::int32_t chunk) const = 0;
  // The length that grow() can reach on the way to `num_tokens`: a block boundary, or `num_tokens` itself.
  virtual std::int32_t most_tokens(SequenceId, std::int32_t num_tokens) { return num_tokens; }
  // Number of free blocks that grow(id, num_tokens) would take.
  virtual std::int64_t blocks_to_grow(SequenceId id, std::int32_t num_tokens) const = 0;
  // Makes space for tokens up to `num_tokens` in total. Returns false, with nothing changed, if the pool is
  // full. Appends the copy-on-write copies that must run before the step.
  [[nodiscard]] virtual bool grow(SequenceId id, std::int32_t num_tokens, std::vector<BlockCopy>& copies) = 0;
  // True if grow() and swap_in() are certain to get `num_blocks` of the free blocks for sequences of these
  // lengths: a manager that has to create or map the blocks first may fail.
  [[nodiscard]] virtual bool make_ready(std::int64_t num_blocks,
                                        std::span<const std::int32_t> /*num_tokens*/) {
    return num_blocks <= num_free_blocks();
  }
  // Called after a step: tokens[0, num_computed) have K/V now. Publishes blocks that became full.
  virtual void computed(SequenceId id, std::span<const TokenId> tokens, std::int32_t num_computed) = 0;
  // Releases the space beyond `num_tokens` tokens (at least the computed ones), after drafts were rejected.
  virtual void shrink(SequenceId, std::int32_t /*num_tokens*/) {}
  virtual void free(SequenceId id) = 0;

  // Valid until the next grow(); not for a swapped sequence.
  virtual KvTables tables(SequenceId id) const = 0;
  // Appends the copies of recurrent states that the step makes for the batch's sequence number `index`, which
  // reaches `num_tokens` tokens, without drafts. Call it after all sequences have grown.
  virtual void copy_states(SequenceId, std::int32_t /*index*/, std::int32_t /*num_tokens*/,
                           std::vector<StateCopy>&) {}
  // Moves out the page mappings decided since the last call, for a batch that will run.
  virtual void take_page_mappings(std::vector<PageMapping>& /*now*/, std::vector<PageMapping>& /*ahead*/) {}

 protected:
  // The interfaces are bases or members of the manager itself.
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
