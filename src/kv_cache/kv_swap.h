#pragma once
// KvSwap: moves the computed K/V of sequences to the swap space and back (§4.5). All or nothing: returns
// false, with nothing changed, if the target is full. A block that several of the sequences share moves once,
// and they share it again. Space for tokens that are not computed yet is released. The copies must run before
// anything else writes the blocks, so a block needs no extra state while it moves. This base class is an
// empty swap space.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <span>
#include <vector>

#include "request/block_copy.h"
#include "request/ids.h"

namespace pagoda {

// Swapping copies `pages`; recomputing takes `tokens`, given the current sharing.
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
