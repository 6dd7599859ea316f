#pragma once
// Bytes of weights that the decode step of one token reads: in a mixture only the experts used, in the
// embedding one row, outside the language model nothing. Counted as stored in the file; packed sizes are
// close.
#include <cstdint>
#include <span>
#include <string_view>

#include "models/decoder_config.h"
#include "models/weight_names.h"

namespace pagoda {

struct StoredTensor {
  std::string_view name;
  std::int64_t bytes = 0;
};

std::int64_t active_weight_bytes(const DecoderConfig& decoder, const WeightNames& names,
                                 std::span<const StoredTensor> tensors);

}  // namespace pagoda
