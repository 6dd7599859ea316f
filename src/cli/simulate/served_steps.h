#pragma once
// Measures the steps of a server under load, to which `bench calibrate --served` fits its cost model. A
// server with these flags runs in a child process, a load generator sends requests as clients do, and the
// steps come from the server's record. Unlike steps of an engine alone, they include the costs of server
// threads and clients, and the scatter of single steps.
// Threads: call before the process has any thread (it forks); blocks.
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "sim/calibration.h"

namespace pagoda {

struct ServedLoad {
  double seconds = 60;              // total, in rounds of 1, 2, 4, … max_batch clients
  std::int32_t max_batch = 64;      // concurrent clients
  std::int32_t max_context = 1024;  // tokens of the longest prompts
  std::int32_t vocab_size = 0;      // the model's
};

struct ServedSteps {
  std::vector<MeasuredStep> steps;
  // Delay from the engine's first token until clients see it; the median over turns.
  double outside_s = 0;
};

// unavailable: the server did not start, or ended.
Result<ServedSteps> served_steps(const EngineFlags& flags, const ServedLoad& load);

}  // namespace pagoda
