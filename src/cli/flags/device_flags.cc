#include "cli/flags/device_flags.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "cli/flags/parse_size.h"

namespace pagoda {

Result<DeviceFlag> parse_device(const std::string& text) {
  constexpr std::array<std::string_view, 4> kNames = {"auto", "cpu", "cuda", "emulated"};
  if (std::ranges::find(kNames, text) != kNames.end()) return DeviceFlag{.name = text};
  constexpr std::string_view kCuda = "cuda:";
  const Status wrong =
      invalid_argument(concat("'", text, "' is not one of auto, cpu, cuda, cuda:N, cuda:N,N, emulated"));
  if (!text.starts_with(kCuda)) return wrong;
  DeviceFlag device = {.name = "cuda"};
  for (std::size_t begin = kCuda.size(); begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string number = text.substr(begin, end - begin);
    begin = end + 1;
    if (number.empty() || number.size() > 3 || number.find_first_not_of("0123456789") != std::string::npos)
      return wrong;
    device.indices.push_back(std::stoi(number));
    if (std::ranges::count(device.indices, device.indices.back()) > 1)
      return invalid_argument(concat("'", text, "' names GPU ", device.indices.back(), " twice"));
  }
  return device;
}

Result<EmulatedDeviceFlags> parse_emulated_device(const std::string& text) {
  EmulatedDeviceFlags flags;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    if (name == "nccl" && equals + 1 < part.size()) {
      flags.nccl = part.substr(equals + 1);
      continue;
    }
    const auto number = equals == std::string::npos ? std::nullopt : parse_size(part.substr(equals + 1));
    if (!number || *number < 0) return invalid_argument(concat("'", part, "' is not NAME=N"));
    if (name == "memory") {
      if (*number < kMinEmulatedMemory || *number > kMaxEmulatedMemory)
        return invalid_argument("memory must be from 1MiB to 1TiB");
      flags.memory_bytes = *number;
    } else if (name == "granule") {
      if (*number < kMinEmulatedGranule || *number > kMinEmulatedGranule << 10 ||
          (*number & (*number - 1)) != 0)
        return invalid_argument("granule must be a power of two from 4KiB to 4MiB");
      flags.granule_bytes = *number;
    } else if (name == "seed") {
      flags.seed = static_cast<std::uint64_t>(*number);
    } else if (name == "lost-launch") {
      flags.lost_launch = *number;
    } else if (name == "lost-look") {
      flags.lost_look = *number;
    } else if (name == "refused-allocation") {
      flags.refused_allocation = *number;
    } else {
      return invalid_argument(concat(
          "'", name,
          "' is not one of memory, granule, seed, lost-launch, lost-look, refused-allocation and nccl"));
    }
  }
  return flags;
}

}  // namespace pagoda
