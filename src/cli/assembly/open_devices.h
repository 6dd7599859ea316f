#pragma once
// Opens the device of --device and loads a model on it. Builds without devices omit this; devices.h then
// returns the error.
#include <memory>
#include <string>

#include "cli/flags/engine_flags.h"
#include "device_runner/device_model_runner.h"

namespace pagoda {

// Opens the device and loads a rank's part of a model on it. `describes`, if not null, receives a description
// of the device.
Result<std::unique_ptr<RankRunner>> load_on_device(const EngineFlags& flags,
                                                   std::shared_ptr<const ModelSource> source,
                                                   const RunnerOptions& options, std::string* describes);

// The kernels of the device selected by flags.
device_runner::DeviceKernels device_kernels(const EngineFlags& flags);

}  // namespace pagoda
