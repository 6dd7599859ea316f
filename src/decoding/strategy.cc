#include "decoding/strategy.h"

#include "decoding/sampling.h"

namespace pagoda {

std::unique_ptr<DecodingStrategy> make_strategy(const Request&, std::int32_t max_model_len) {
  return std::make_unique<SamplingStrategy>(max_model_len);
}

}  // namespace pagoda
