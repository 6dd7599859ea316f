#pragma once
// StepBucket: what the launches of a decode step depend on, and nothing else: steps of one bucket make the
// same launches with the same arguments, so that what was captured of one can be replayed for another. Each
// row is a sequence's only one; rows behind those that there are are padding, which writes no keys and
// values, no states, and chooses no experts.
#include <compare>
#include <cstdint>

namespace pagoda {

struct StepBucket {
  std::int32_t rows = 0;    // with padding
  std::int32_t splits = 0;  // as many as the longest context has (device::splits_of()), or more
  bool alike = true;        // contexts are of about one length (KernelLaunches::walks())
  auto operator<=>(const StepBucket&) const = default;
};

}  // namespace pagoda
