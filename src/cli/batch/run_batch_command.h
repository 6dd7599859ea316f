#pragma once
// pagoda run-batch: runs OpenAI batch lines from a file through the engine, without HTTP, for every route of
// every protocol. Answers are written as they complete; a restarted run skips the lines already answered.
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
// An invalid line gets its error as the answer; the run continues.
Status run_batch(const RunBatchArgs& args);

}  // namespace pagoda
