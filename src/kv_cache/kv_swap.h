#pragma once
// KvSwap: moves the computed K/V of sequences to the swap space and back (§4.5). All or nothing: false, with
// nothing changed, when the target is full. A block that several of the sequences share moves once, and they
// share it again. Room for tokens that are not computed yet is given up. The copies must run before anything
// else writes the blocks, so a block needs no state of its own while it moves. This base class is a swap
// space of no blocks.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <span>
#include <vector>

#include "request/block_copy.h"
#include "request/ids.h"

namespace pagoda {

// `pages` are copied by swapping; recomputing takes `tokens`, with the sharing that there is now.
struct SwapCost {
  std::int64_t pages = 0, tokens = 0;
};

class KvSwap {
 public:
  virtual ~KvSwap() = default;
  [[nodiscard]] virtual bool swap_out(std::span<const SequenceId>, std::vector<SwapCopy>&) { return false; }
  [[nodiscard]] virtual bool swap_in(std::span<const SequenceId>, std::vector<SwapCopy>&) { return false; }
  virtual SwapCost swap_cost(std::span<const SequenceId>) const { return {}; }
  virtual std::int64_t num_swap_blocks() const { return 0; }
  virtual std::int64_t num_free_swap_blocks() const { return 0; }
};

}  // namespace pagoda
