#pragma once
// --device: a name, optionally with GPU numbers. --emulated-device: the properties of the emulated device, as
// a list of NAME=N. invalid_argument: the message continues after the flag's name.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct DeviceFlag {
  std::string name = "auto";
  std::vector<std::int32_t> indices = {};
};
// Accepts auto, cpu, cuda, cuda:N, cuda:N,N and emulated. A GPU may not be named twice.
Result<DeviceFlag> parse_device(const std::string& text);

Result<EmulatedDeviceFlags> parse_emulated_device(const std::string& text);

}  // namespace pagoda
