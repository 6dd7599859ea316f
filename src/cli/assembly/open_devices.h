#pragma once
// Opens the device of --device and loads a model there. Left out of builds without devices, where devices.h
// answers.
#include <memory>
#include <string>

#include "cli/flags/engine_flags.h"
#include "device_runner/device_model_runner.h"

namespace pagoda {

// A rank's part of a model on the device that is opened for it. `describes`: gets what that device is; or
// null.
Result<std::unique_ptr<RankRunner>> load_on_device(const EngineFlags& flags,
                                                   std::shared_ptr<const ModelSource> source,
                                                   const RunnerOptions& options, std::string* describes);

// Which kernels of the device are asked for.
device_runner::DeviceKernels device_kernels(const EngineFlags& flags);

}  // namespace pagoda
