#pragma once
// pagoda doctor: what this machine offers and whether the engine computes right on it.
#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct DoctorArgs {
  EngineFlags engine;
};

Status run_doctor(const DoctorArgs& args);

}  // namespace pagoda
