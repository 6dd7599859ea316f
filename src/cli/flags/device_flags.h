#pragma once
// --device: a name, and of several GPUs which. --emulated-device: what kind of emulated device, as a list of
// NAME=N. invalid_argument: in words that follow the flag's name.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct DeviceFlag {
  std::string name = "auto";
  std::vector<std::int32_t> indices = {};
};
// auto, cpu, cuda, cuda:N, cuda:N,N, emulated. No GPU is named twice.
Result<DeviceFlag> parse_device(const std::string& text);

Result<EmulatedDeviceFlags> parse_emulated_device(const std::string& text);

}  // namespace pagoda
