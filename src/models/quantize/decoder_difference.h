#pragma once
// Compares two descriptions of a decoder, e.g. of one model in two formats. Feed-forwards other than dense
// ones and mixtures always count as different.
// Threads: any.
#include <string_view>

#include "models/decoder_config.h"

namespace pagoda {

// Returns the first difference, e.g. "rotation" or "attention"; empty if both compute the same.
std::string_view decoder_difference(const DecoderConfig& a, const DecoderConfig& b);

}  // namespace pagoda
