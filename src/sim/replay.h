#pragma once
// Replay: a recorded run again, without its model: the same requests, aborts and answers in the same order
// and at the same times, given to the same engine code, which must come to the same decisions, step by step.
// Threads: none.
#include <functional>
#include <memory>
#include <vector>

#include "load/latency_statistics.h"
#include "load/workload.h"
#include "request/engine_snapshot.h"
#include "sim/run_log.h"

namespace pagoda {

// A recorded request, with the times of its tokens.
struct ReplayedRequest {
  WorkloadRequest asked;  // arrival since the log's start; output_tokens as it got them
  bool completed = false;
};

struct ReplayReport {
  std::int64_t num_steps = 0, num_requests = 0;  // replayed
  bool complete = false;                         // the log has its end
  RunHeader header;
  // Times are the recorded ones: of the engine, without HTTP.
  LatencySketch ttft, inter_token, latency;
  double duration_s = 0;  // to the last token
  std::vector<ReplayedRequest> requests;
  std::string difference;  // empty: every decision was the same
};

// corrupt_data: the log cannot be read, or holds what no engine can have done. `on_live`: after each step.
Result<ReplayReport> replay(const std::string& path, const PartsFactory& make_parts,
                            std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live = {});

}  // namespace pagoda
