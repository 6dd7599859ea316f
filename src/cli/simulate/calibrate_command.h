#pragma once
// pagoda bench calibrate: measures the steps of this machine on a model and writes the cost model that fits
// them.
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

struct CalibrateArgs {
  EngineFlags engine;
  std::string output = "-";
  std::vector<std::string> logs;    // logs of serve --record: their steps, instead of measuring
  bool served = false;              // measures a server under load instead of the engine by itself
  double seconds = 60;              // duration of that load
  std::int32_t max_batch = 64;      // sequences
  std::int32_t max_context = 1024;  // tokens
};

Status run_bench_calibrate(const CalibrateArgs& args);

}  // namespace pagoda
