#pragma once
// --device: which device computes a model, if it is not the CPU.
#include <memory>

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

Result<std::unique_ptr<device::Device>> open_device(const EngineFlags& flags);

// Which kernels of the device are asked for.
device_runner::DeviceKernels device_kernels(const EngineFlags& flags);

}  // namespace pagoda
