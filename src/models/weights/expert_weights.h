#pragma once
// ExpertWeights: the experts of one mixture, packed, in whichever of the forms that ExpertNames knows a file
// has them: a tensor for each expert and matrix, or one of all experts; gate and up apart, one above the
// other, or row by row; transposed or not. Threads: one caller. Owner: the mixture.
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
  std::vector<PackedLinear> in, out;  // by expert: gate and up, or up alone; down
};

// Those that the file has, or the first, of which the reader will then say what is missing.
const ExpertNames& choose_expert_names(const std::string& prefix, WeightLoader& loader);

// Which experts, which features of each, and which rows of its second matrix.
struct OwnExperts {
  Range experts, features, hidden;
};

// Tells those matrices of a mixture whose tensors lie behind `prefix`, one expert after the
// other, its first matrix (gate above up, or up alone) before its second.
enum class ExpertMatrix { in, out };
using TakeExpert = std::function<void(ExpertMatrix which, Matrices matrices, const std::string& name)>;
void read_experts(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                  std::int64_t hidden_size, const OwnExperts& own, WeightLoader& loader,
                  const TakeExpert& take);

// The same, packed.
ExpertWeights load_experts(const MixtureConfig& config, const ExpertNames& names, const std::string& prefix,
                           std::int64_t hidden_size, const OwnExperts& own, WeightLoader& loader);

}  // namespace pagoda
