#pragma once
// A simulation: the real EngineCore with the real scheduler, memory manager and decoding, on a virtual clock
// and with a runner that only costs time. Runs one engine, or several behind a router. Discrete events: a
// step of an engine, an arrival, a client that leaves.
// The same options, workload and seed give bit-identical results.
// Memory grows with the number of live requests, not with the length of the workload.
// Threads: none.
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/step_observer.h"
#include "load/latency_statistics.h"
#include "load/workload.h"
#include "request/engine_snapshot.h"
#include "routing/router.h"
#include "scheduler/scheduler.h"
#include "sim/cost_model.h"
#include "sim/parts_factory.h"
#include "sim/simulated_tiers.h"

namespace pagoda {

// Injected faults, each drawn from the seed.
struct SimulatedFaults {
  std::uint64_t seed = 0;
  double drop_share = 0;   // share of requests whose client leaves, soon or late
  double stall_share = 0;  // share of steps that take up to max_stall_s longer
  double max_stall_s = 1;
  double burst_s = 0;        // arrivals are delayed to multiples of this
  double failure_share = 0;  // share of steps in which the device is lost, which ends the engine
  double stop_share = 0;     // share of requests with one answer ended early
  // Share of arrivals at which a prefix is pinned, or the pinned one is dropped; pinning reduces the
  // available memory.
  double pin_share = 0;
};

struct SimulationOptions {
  CostModel cost;
  EngineConfig engine;
  EngineModes modes;
  std::int64_t num_blocks = 0, num_swap_blocks = 0;
  SimulatedTierOptions tiers = {};  // with engine.kv_tiers
  PartsFactory make_parts;
  // Number of tensors with pages of their own (--kv-manager virtual): the number of layers, unless sliced.
  std::int32_t map_tensors = 1;
  std::int32_t replicas = 1;
  RouterKind router = RouterKind::round_robin;
  std::uint64_t seed = 0;
  std::optional<SimulatedFaults> faults;
  bool check_invariants = false;  // after every step
  double max_seconds = 0;         // simulated time; 0: no limit. Requests open at the limit are unfinished
  // Called after each step of the first replica.
  std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live = {};
};

struct SimulatedOutcome {
  std::uint64_t number = 0;  // from 1, in order of arrival
  std::int32_t replica = 0;
  // Since the start; first_token_s is 0 if there was no token.
  double arrival_s = 0, first_token_s = 0, finish_s = 0;
  std::int32_t prompt_tokens = 0, cached_tokens = 0;
  std::int64_t output_tokens = 0;  // over all answers
  std::int32_t longest_output = 0;
  std::int32_t num_sequences = 1;
  std::string_view reason;  // finish reason: length, abort, error; refused

  double normalized_latency_s() const { return (finish_s - arrival_s) / std::max(1, longest_output); }
};

// Time series for plots: sums in a bounded number of intervals, whose length doubles as needed.
class Timeline {
 public:
  static constexpr std::size_t kIntervals = 512;
  struct Interval {
    // running, waiting and kv_usage are multiplied by seconds.
    double seconds = 0, running = 0, waiting = 0, kv_usage = 0;
  };
  void add(double begin_s, double end_s, double running, double waiting, double kv_usage);
  double interval_s() const { return interval_s_; }
  const std::vector<Interval>& intervals() const { return intervals_; }

 private:
  std::vector<Interval> intervals_;
  double interval_s_ = 1.0 / 16;
};

struct SimulationSummary {
  std::int64_t arrived = 0, completed = 0, aborted = 0, failed = 0, refused = 0, unfinished = 0;
  double last_arrival_s = 0, duration_s = 0;  // since the workload's start
  std::int64_t open_at_last_arrival = 0;      // requests open at that time, including the last one
  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  std::int64_t computed_tokens = 0, num_steps = 0;
  double busy_s = 0;  // summed over replicas
  // Latencies of completed requests. Normalized: divided by the tokens of the longest answer (Orca's metric).
  LatencySketch normalized_latency, ttft, tpot, inter_token, latency;
  double batch_by_step = 0, batch_by_time = 0;        // mean sequences per step
  double requests_by_step = 0, requests_by_time = 0;  // mean requests per step
  double mean_waiting = 0;                            // mean requests, over the time of steps
  // Shares of memory that is allocated or lost (paper Fig. 2); free memory is not counted.
  double kv_token_share = 0, kv_reserved_share = 0, kv_internal_share = 0, kv_external_share = 0;
  double kv_in_use_share = 0;     // share of the pool
  double shared_block_share = 0;  // blocks saved by sharing / blocks needed without it (Fig. 15)
  std::int64_t preemptions = 0, preemptions_by_swap = 0;
  std::int64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  std::int64_t prefix_queries = 0, prefix_hits = 0;
  // Tokens requested from the tiers, and delivered by them.
  std::int64_t external_queries = 0, external_hits = 0;
  MapStats mapping;  // --kv-manager virtual
  std::vector<std::int64_t> requests_of_replica;
  Timeline timeline;  // the first replica's
};

struct SimulationCallbacks {
  std::function<void(const SimulatedOutcome&)> on_outcome;  // for each request, as it ends
  std::function<void(std::int64_t num_ended, double simulated_s)> on_progress;  // periodically
  std::function<void(const StepReport&, std::span<const ScheduledRef>)> on_step = {};
};

// Returns the errors of the workload and of the configuration. Invariant engine.conservation: every arrival
// has exactly one outcome (unless max_seconds ends the run).
Result<SimulationSummary> simulate(const SimulationOptions& options, Workload& workload,
                                   const SimulationCallbacks& callbacks = {});

}  // namespace pagoda
