#pragma once
// Describes, in one line for users, the tensors of a file that a model does not use.
#include <cstdint>
#include <span>
#include <string>

namespace pagoda {

struct UnusedTensors {
  // "12 tensors of multi-token prediction, 438 for pictures and sounds (visual)": not needed for text.
  std::string beside_text;
  // "3 tensors (first: lm_bias)": of unknown purpose.
  std::string unknown;
};

// Either is empty if there are none. Layers from `num_layers` on are only for drafting tokens.
UnusedTensors describe_unused(std::span<const std::string> names, std::int32_t num_layers);

}  // namespace pagoda
