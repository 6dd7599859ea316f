#pragma once
// --emulated-device: what kind of emulated device, as a list of NAME=N.
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

Result<EmulatedDeviceFlags> parse_emulated_device(const std::string& text);

}  // namespace pagoda
