#include "models/weight_names.h"

namespace pagoda {

std::string WeightNames::layer_prefix(std::int32_t index) const {
  std::string prefix = layer;
  prefix.replace(prefix.find("{}"), 2, std::to_string(index));
  return prefix;
}

}  // namespace pagoda
