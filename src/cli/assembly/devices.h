#pragma once
// --device: which device computes a model, if it is not the CPU.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "model_runner/rank_runner.h"

namespace pagoda {

inline bool uses_device(const EngineFlags& flags) { return flags.device != "auto" && flags.device != "cpu"; }

// invalid_argument: flags that a device has no answer to, by name. unavailable: this program or this machine
// has no such device. Needs no model and opens nothing.
Status check_device_flags(const EngineFlags& flags);

// Flags of vLLM that mean something on a device alone: adds those that have no effect on the CPU to
// `ignored`, which has the others'. invalid_argument: a device cannot do what one of them asks for.
Status answer_gpu_flags(const EngineFlags& flags, std::vector<std::string>& ignored);

// The GPU of a rank or an engine, from 0 on: one of those that --device names, or the first that it names and
// those behind it.
std::int32_t gpu_of(const EngineFlags& flags, std::int32_t number);
std::string cuda_name(std::int32_t gpu);  // the flag that names it

// Loads a rank's part of a model on its device, or on the CPU. `describes`: gets what that device is; or
// null.
LoadRank rank_loader(const EngineFlags& flags, std::string* describes = nullptr);

}  // namespace pagoda
