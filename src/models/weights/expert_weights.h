#pragma once
// ExpertWeights: the packed experts of one mixture, from any form in ExpertNames: a tensor per expert and
// matrix, or one for all experts; gate and up separate, stacked or interleaved; transposed or not.
// Threads: one caller. Owner: the mixture.
#include <functional>
#include <string>
#include <vector>

#include "kernels/linear.h"
#include "models/decoder_config.h"
#include "models/weight_names.h"
#include "models/weights/tensor_shard.h"
#include "models/weights/weight_loader.h"

namespace pagoda {

struct ExpertWeights {
  std::vector<PackedLinear> in, out;  // by expert; in: gate and up, or only up; out: down
};

// Returns the names that the file has; otherwise the first ones, for which the reader then reports what is
// missing.
const ExpertNames& choose_expert_names(const std::string& prefix, WeightLoader& loader);

// This rank's experts, features of each expert, and rows of each second matrix.
struct OwnExperts {
  Range experts, features, hidden;
};

// Calls `take` with those matrices of a mixture whose tensors begin with `prefix`, expert by expert, the
// first matrix (gate above up, or only up) before the second.
enum class ExpertMatrix { in, out };
using TakeExpert = std::function<void(ExpertMatrix which, Matrices matrices, const std::string& name)>;
void read_experts(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                  std::int64_t hidden_size, const OwnExperts& own, WeightLoader& loader,
                  const TakeExpert& take);

// The same, packed.
ExpertWeights load_experts(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                           std::int64_t hidden_size, const OwnExperts& own, WeightLoader& loader);

}  // namespace pagoda
