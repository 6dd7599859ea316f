#pragma once
// PagedSwap: KvSwap on paged memory.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache/kv_swap.h"
#include "kv_cache/paged_parts.h"

namespace pagoda {

class PagedSwap final : public KvSwap {
 public:
  explicit PagedSwap(PagedParts& parts) : parts_(parts) {}  // borrows `parts`

  [[nodiscard]] bool swap_out(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  [[nodiscard]] bool swap_in(std::span<const SequenceId> ids, std::vector<SwapCopy>& copies) override;
  SwapCost swap_cost(std::span<const SequenceId> ids) const override;
  std::int64_t num_swap_blocks() const override {
    return parts_.swap_space ? parts_.swap_space->num_blocks() : 0;
  }
  std::int64_t num_free_swap_blocks() const override {
    return parts_.swap_space ? parts_.swap_space->num_free() : 0;
  }

 private:
  PagedParts& parts_;
};

}  // namespace pagoda
