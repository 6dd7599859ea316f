#pragma once
// pagoda run-batch: OpenAI's batch lines from a file through the engine, without HTTP, for every route of
// every protocol. Answers are written as they come; begun again, what is answered is not repeated.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/flag.h"

namespace pagoda {

struct RunBatchArgs {
  EngineFlags engine;
  std::string input, output;  // JSON Lines
};

std::vector<Flag> run_batch_flags(RunBatchArgs& args);
// A line that is wrong is answered with its error, and no error here.
Status run_batch(const RunBatchArgs& args);

}  // namespace pagoda
