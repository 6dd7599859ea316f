#pragma once
// pagoda quantize: converts the weights of a GGUF file or a Hugging Face folder to another type
// (models/quantize/quantize_gguf.h, models/quantize/quantize_folder.h).
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct QuantizeArgs {
  std::string model, type, output;
};

std::vector<Flag> quantize_flags(QuantizeArgs& args);
int run_quantize(const QuantizeArgs& args);

}  // namespace pagoda
