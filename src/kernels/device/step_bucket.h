#pragma once
// StepBucket: everything on which the launches of a decode step depend: steps of one bucket make the same
// launches with the same arguments, so that a captured step can be replayed for another. Each row is the only
// one of its sequence. Further rows are padding, which writes no keys, values or states, and chooses no
// experts.
#include <compare>
#include <cstdint>

namespace pagoda {

struct StepBucket {
  std::int32_t rows = 0;    // with padding
  std::int32_t splits = 0;  // at least the number of the longest context (device::splits_of())
  bool alike = true;        // contexts have similar lengths (KernelLaunches::walks())
  auto operator<=>(const StepBucket&) const = default;
};

}  // namespace pagoda
