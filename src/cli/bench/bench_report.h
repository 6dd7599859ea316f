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
  double median = 0, best = 0;  // best: the largest
};
Spread spread(std::vector<double> values);  // at least one value

// The shares of the paper's Fig. 2 and Fig. 15 over a stretch of time.
struct KvAccount {
  double token = 0, reserved = 0, internal = 0, external = 0, cached = 0;  // shares of all slots
  double waste = 0;                                                        // share of the allocated ones
  double saved = 0;                                                        // blocks, by sharing
  std::int64_t blocks_copied = 0, preemptions = 0;
};
KvAccount account_between(const EngineTotals& before, const EngineTotals& after);

struct BenchFigures {
  std::string bench, model, dtype;
  int threads = 0;
  BenchShape shape;
  Spread prefill, total;         // tokens a second
  std::optional<Spread> decode;  // tokens a second; none: the first were through before the last had begun
  std::optional<Spread>
      bandwidth;  // bytes a second that the host's memory gave around the runs; none: a device
  std::optional<double> step_bytes;  // weights, K and V that a decode step of all requests reads, if known
  std::optional<Spread> share;       // share that decode steps used, where a step's reads are known
  std::optional<IdleTimes::Figures> idle;  // a device was between decode steps; none: not measured
  KvAccount kv;
  const RankSteps* ranks = nullptr;  // null: one rank
  std::int32_t num_ranks = 1;
};

void print_figures(const BenchFigures& figures);
std::string figures_json(const BenchFigures& figures);

}  // namespace pagoda
