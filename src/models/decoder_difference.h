#pragma once
// Compares two descriptions of a decoder, as those of one model in two formats. Layers of other kinds than
// attention before a dense feed-forward or a mixture are never the same. Threads: any.
#include <string_view>

#include "models/decoder_config.h"

namespace pagoda {

// The first thing that is not the same: "rotation", "attention"; empty: they compute the same.
std::string_view decoder_difference(const DecoderConfig& a, const DecoderConfig& b);

}  // namespace pagoda
