#pragma once
// What models a device runs, as of now: decoders of plain layers, as Llama, Mistral, Qwen2 and Qwen3 have
// them.
#include "models/decoder_config.h"

namespace pagoda::device_runner {

// unimplemented: names the first thing of the model that the device's program has not.
Status check_support(const DecoderConfig& config);

}  // namespace pagoda::device_runner
