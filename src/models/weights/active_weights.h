#pragma once
// How many bytes of weights one token's step reads: of a mixture the experts it goes through, of the
// embedding a row, of what is no part of the language model nothing. Bytes as the file stores them; packed
// ones are near.
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
