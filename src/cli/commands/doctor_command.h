#pragma once
// pagoda doctor: reports the capabilities of this machine and checks that the engine computes correctly on
// it.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct DoctorArgs {
  EngineFlags engine;
};

Status run_doctor(const DoctorArgs& args);

}  // namespace pagoda
