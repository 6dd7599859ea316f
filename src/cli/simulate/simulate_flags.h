#pragma once
// The flags of simulate, plan and bench calibrate. `args` must outlive the rows.
#include <string>
#include <vector>

#include "cli/flags/flag.h"
#include "cli/simulate/calibrate_command.h"
#include "cli/simulate/plan_command.h"
#include "cli/simulate/simulate_command.h"
#include "sim/simulation.h"

namespace pagoda {

std::vector<Flag> simulate_flags(SimulateArgs& args);
RouterKind router_kind(const std::string& name);  // a value of --router
std::vector<Flag> plan_flags(PlanArgs& args);
std::vector<Flag> calibrate_flags(CalibrateArgs& args);

}  // namespace pagoda
