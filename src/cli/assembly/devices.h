#pragma once
// --device: the device that computes the model, if it is not the CPU.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "model_runner/rank_runner.h"

namespace pagoda {

inline bool uses_device(const EngineFlags& flags) { return flags.device != "auto" && flags.device != "cpu"; }

// invalid_argument, naming the flag: a flag is not supported on devices. unavailable: this program or this
// machine has no such device. Needs no model and opens no device.
Status check_device_flags(const EngineFlags& flags);

// Handles vLLM flags that only apply to devices: adds the flags that have no effect on the CPU to `ignored`.
// invalid_argument: a device does not support the requested value.
Status answer_gpu_flags(const EngineFlags& flags, std::vector<std::string>& ignored);

// The GPU of a rank or an engine, numbered from 0: the respective GPU of the list in --device, or the first
// GPU named plus `number`.
std::int32_t gpu_of(const EngineFlags& flags, std::int32_t number);
std::string cuda_name(std::int32_t gpu);  // the flag that selects this GPU

// Returns the function that loads a rank's part of a model on its device, or on the CPU. `describes`, if not
// null, receives a description of the device.
LoadRank rank_loader(const EngineFlags& flags, std::string* describes = nullptr);

}  // namespace pagoda
