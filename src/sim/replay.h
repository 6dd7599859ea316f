#pragma once
// Replay: repeats a recorded run without its model. The same requests, aborts and answers are given to the
// same engine code in the same order and at the same times; the engine must make the same decisions step by
// step.
// Threads: none.
#include <functional>
#include <memory>
#include <vector>

#include "load/latency_statistics.h"
#include "load/workload.h"
#include "request/engine_snapshot.h"
#include "sim/run_log.h"

namespace pagoda {

// A recorded request with the times of its tokens.
struct ReplayedRequest {
  WorkloadRequest asked;  // arrival since the start of the log; output_tokens as recorded
  bool completed = false;
};

struct ReplayReport {
  std::int64_t num_steps = 0, num_requests = 0;  // replayed
  bool complete = false;                         // the log has its end record
  RunHeader header;
  // Recorded times, measured at the engine, without HTTP.
  LatencySketch ttft, inter_token, latency;
  double duration_s = 0;  // until the last token
  std::vector<ReplayedRequest> requests;
  std::string difference;  // empty if every decision was the same
};

// corrupt_data: the log cannot be read, or contains events that no engine can produce. `on_live` is called
// after each step.
Result<ReplayReport> replay(const std::string& path, const PartsFactory& make_parts,
                            std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live = {});

}  // namespace pagoda
