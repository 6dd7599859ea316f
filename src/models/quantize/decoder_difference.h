#pragma once
// Compares two descriptions of a decoder, as those of one model in two formats. Feed-forwards of other kinds
// than dense ones and mixtures are never the same. Threads: any.
#include <string_view>

#include "models/decoder_config.h"

namespace pagoda {

// The first thing that is not the same: "rotation", "attention"; empty: they compute the same.
std::string_view decoder_difference(const DecoderConfig& a, const DecoderConfig& b);

}  // namespace pagoda
