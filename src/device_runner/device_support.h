#pragma once
// Says which models a device runs: decoders whose layers are attention and a feed-forward, with norms,
// windows, sinks, soft caps and positions as families have them.
#include "models/decoder_config.h"

namespace pagoda::device_runner {

// unimplemented: names the first thing of the model that the device's program has not, for sequences of at
// most `max_context` tokens.
Status check_support(const DecoderConfig& config, std::int32_t max_context);

// Whether the plain kernels, over which all other models run, take its sizes.
Status check_plain_support(const DecoderConfig& config);

}  // namespace pagoda::device_runner
