#pragma once
// What models a device runs, as of now: decoders of plain layers, as Llama, Mistral, Qwen2 and Qwen3 have
// them.
#include "models/decoder_config.h"

namespace pagoda::device_runner {

// unimplemented: names the first thing of the model that the device's program has not, for sequences of at most
// `max_context` tokens.
Status check_support(const DecoderConfig& config, std::int32_t max_context);

}  // namespace pagoda::device_runner
