#pragma once
// What of a file's tensors a model does not use, said in one line for people.
#include <cstdint>
#include <span>
#include <string>

namespace pagoda {

// "12 tensors of multi-token prediction, 438 for pictures and sounds, 1 other (lm_bias)"; empty: there are
// none. Layers from `num_layers` on only draft tokens.
std::string describe_unused(std::span<const std::string> names, std::int32_t num_layers);

}  // namespace pagoda
