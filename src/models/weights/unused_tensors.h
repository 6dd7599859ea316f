#pragma once
// Describes, in one line for people, the tensors of a file that a model does not use.
#include <cstdint>
#include <span>
#include <string>

namespace pagoda {

struct UnusedTensors {
  // "12 tensors of multi-token prediction, 438 for pictures and sounds (visual)": text does not need them.
  std::string beside_text;
  // "3 tensors (first: lm_bias)": nobody knows what they are for.
  std::string unknown;
};

// Either is empty if there are none. Layers from `num_layers` on only draft tokens.
UnusedTensors describe_unused(std::span<const std::string> names, std::int32_t num_layers);

}  // namespace pagoda
