#pragma once
// pagoda bench calibrate: measures steps of a model on this machine and writes the cost model fitted to them.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct CalibrateArgs {
  EngineFlags engine;
  std::string output = "-";
  std::vector<std::string> logs;    // logs of serve --record, whose steps are used instead of measuring
  bool served = false;              // measure a server under load instead of the engine alone
  double seconds = 60;              // duration of the load
  std::int32_t max_batch = 64;      // sequences
  std::int32_t max_context = 1024;  // tokens
};

Status run_bench_calibrate(const CalibrateArgs& args);

}  // namespace pagoda
