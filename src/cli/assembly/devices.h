#pragma once
// --device: which device computes a model, if it is not the CPU.
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "device/device.h"
#include "device_runner/device_model_runner.h"

namespace pagoda {

inline bool uses_device(const EngineFlags& flags) { return flags.device != "auto" && flags.device != "cpu"; }

// invalid_argument: flags that a device has no answer to, by name. unavailable: this program or this machine
// has no such device. Needs no model and opens nothing.
Status check_device_flags(const EngineFlags& flags);

// Flags of vLLM that mean something on a device alone: adds those that have no effect on the CPU to
// `ignored`, which has the others'. invalid_argument: a device cannot do what one of them asks for.
Status answer_gpu_flags(const EngineFlags& flags, std::vector<std::string>& ignored);

// Opens the device of a rank.
Result<std::unique_ptr<device::Device>> open_device(const EngineFlags& flags, std::int32_t rank = 0);

// The GPU of a rank or an engine, from 0 on: one of those that --device names, or the first that it names and
// those behind it.
std::int32_t gpu_of(const EngineFlags& flags, std::int32_t number);

// Loads a model, or a rank's part, on its device. `describes`: gets what that device is; or null.
Result<std::unique_ptr<device_runner::DeviceModelRunner>> load_on_device(
    const EngineFlags& flags, std::shared_ptr<const ModelSource> source, const RunnerOptions& options,
    std::string* describes = nullptr);
// The same, or on the CPU, as ranks load it.
LoadRank rank_loader(const EngineFlags& flags, std::string* describes = nullptr);

// Which kernels of the device are asked for.
device_runner::DeviceKernels device_kernels(const EngineFlags& flags);

}  // namespace pagoda
