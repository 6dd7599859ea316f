#pragma once
// The steps of a server under load: what `bench calibrate --served` fits its cost model to. A server of these
// flags runs in a child process, a load generator asks it as clients do, and the steps come from what the
// server recorded. So they hold what a server's threads and its clients cost beside the model, and how single
// steps scatter, which an engine measured by itself does not show.
// Threads: call it before the process has any (it forks); blocks.
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "sim/calibration.h"

namespace pagoda {

struct ServedLoad {
  double seconds = 60;              // load, by rounds of 1, 2, 4, … max_batch clients
  std::int32_t max_batch = 64;      // clients at once
  std::int32_t max_context = 1024;  // tokens of the longest prompts
  std::int32_t vocab_size = 0;      // the model's
};

struct ServedSteps {
  std::vector<MeasuredStep> steps;
  double outside_s =
      0;  // by which clients saw first tokens later than the engine had them; of turns the median
};

// unavailable: the server did not start, or ended.
Result<ServedSteps> served_steps(const EngineFlags& flags, const ServedLoad& load);

}  // namespace pagoda
