#pragma once
// Results of `pagoda bench`, as a table and as JSON.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/bench/bench_batch.h"
#include "cli/bench/idle_times.h"
#include "model_runner/distributed_model_runner.h"
#include "request/engine_snapshot.h"

namespace pagoda {

struct Spread {
  double median = 0, best = 0;  // best: the largest value
};
Spread spread(std::vector<double> values);  // at least one value

// The shares of the paper's Fig. 2 and Fig. 15 over a period of time.
struct KvAccount {
  double token = 0, reserved = 0, internal = 0, external = 0, cached = 0;  // shares of all slots
  double waste = 0;                                                        // share of the allocated slots
  double saved = 0;                                                        // blocks saved by sharing
  std::int64_t blocks_copied = 0, preemptions = 0;
};
KvAccount account_between(const EngineTotals& before, const EngineTotals& after);

struct BenchFigures {
  std::string bench, model, dtype;
  int threads = 0;
  BenchShape shape;
  Spread prefill, total;  // tokens per second
  // Tokens per second; absent: the first requests finished before the last had started.
  std::optional<Spread> decode;
  // Bytes per second of the host's memory, measured around the runs; absent on a device.
  std::optional<Spread> bandwidth;
  std::optional<double> step_bytes;  // weights, K and V read by a decode step of all requests, if known
  std::optional<Spread> share;       // share of the bandwidth that decode steps used, if step_bytes is known
  std::optional<IdleTimes::Figures>
      idle;  // idle times of a device between decode steps; absent: not measured
  KvAccount kv;
  const RankSteps* ranks = nullptr;  // null: a single rank
  std::int32_t num_ranks = 1;
};

void print_figures(const BenchFigures& figures);
std::string figures_json(const BenchFigures& figures);

}  // namespace pagoda
