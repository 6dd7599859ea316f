#pragma once
// A simulation: the real EngineCore, with the real scheduler, memory manager and decoding, on a virtual clock
// and a runner that only costs time; one such engine, or several behind a router. Discrete events: a step of
// an engine, an arrival, a client that leaves.
// The same options, workload and seed give the same results, to the last bit.
// What is kept grows with what is live, not with the length of the workload.
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

// Things that go wrong on purpose, each drawn from the seed.
struct SimulatedFaults {
  std::uint64_t seed = 0;
  double drop_share = 0;   // share of requests whose client leaves, soon or late
  double stall_share = 0;  // share of steps that take up to max_stall_s longer
  double max_stall_s = 1;
  double burst_s = 0;        // arrivals are held back to multiples of this
  double failure_share = 0;  // share of steps in which the device is lost; the engine ends
  double stop_share = 0;     // share of requests of which one answer is ended early
  // Share of arrivals at which a prefix is pinned, or the pinned one dropped: less memory.
  double pin_share = 0;
};

struct SimulationOptions {
  CostModel cost;
  EngineConfig engine;
  EngineModes modes;
  std::int64_t num_blocks = 0, num_swap_blocks = 0;
  SimulatedTierOptions tiers = {};  // with engine.kv_tiers
  PartsFactory make_parts;
  std::int32_t map_tensors =
      1;  // --kv-manager virtual: that have pages of their own; the layers, if not sliced
  std::int32_t replicas = 1;
  RouterKind router = RouterKind::round_robin;
  std::uint64_t seed = 0;
  std::optional<SimulatedFaults> faults;
  bool check_invariants = false;  // after every step
  double max_seconds = 0;         // simulated time; 0: to the end. Requests left then are unfinished
  std::function<void(std::shared_ptr<const EngineSnapshot>)> on_live =
      {};  // after each step of the first replica
};

struct SimulatedOutcome {
  std::uint64_t number = 0;  // from 1, in order of arrival
  std::int32_t replica = 0;
  double arrival_s = 0, first_token_s = 0, finish_s = 0;  // since the start; first token 0: none
  std::int32_t prompt_tokens = 0, cached_tokens = 0;
  std::int64_t output_tokens = 0;  // over all its answers
  std::int32_t longest_output = 0;
  std::int32_t num_sequences = 1;
  std::string_view reason;  // finish reason: length, abort, error; refused

  double normalized_latency_s() const { return (finish_s - arrival_s) / std::max(1, longest_output); }
};

// Sums over time of what one can plot against it, in a bounded number of intervals that double as needed.
class Timeline {
 public:
  static constexpr std::size_t kIntervals = 512;
  struct Interval {
    double seconds = 0, running = 0, waiting = 0, kv_usage = 0;  // the last three times seconds
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
  std::int64_t open_at_last_arrival = 0;      // requests that had not ended then, itself among them
  std::int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  std::int64_t computed_tokens = 0, num_steps = 0;
  double busy_s = 0;  // summed over replicas
  // Latencies of completed requests. Normalized: by the longest answer's tokens (Orca's metric).
  LatencySketch normalized_latency, ttft, tpot, inter_token, latency;
  double batch_by_step = 0, batch_by_time = 0;        // sequences in a step, mean
  double requests_by_step = 0, requests_by_time = 0;  // requests in a step, mean
  double mean_waiting = 0;                            // requests, over the time of steps
  // Shares of what is allocated or lost (paper Fig. 2); free memory is not counted.
  double kv_token_share = 0, kv_reserved_share = 0, kv_internal_share = 0, kv_external_share = 0;
  double kv_in_use_share = 0;     // share of the pool
  double shared_block_share = 0;  // blocks saved by sharing of blocks without it (Fig. 15)
  std::int64_t preemptions = 0, preemptions_by_swap = 0;
  std::int64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  std::int64_t prefix_queries = 0, prefix_hits = 0;
  std::int64_t external_queries = 0, external_hits = 0;  // tokens that tiers were asked for, and brought
  MapStats mapping;                                      // --kv-manager virtual
  std::vector<std::int64_t> requests_of_replica;
  Timeline timeline;  // the first replica's
};

struct SimulationCallbacks {
  std::function<void(const SimulatedOutcome&)> on_outcome;                      // each request, as it ends
  std::function<void(std::int64_t num_ended, double simulated_s)> on_progress;  // now and then
  std::function<void(const StepReport&, std::span<const ScheduledRef>)> on_step = {};
};

// Fails where the workload or the configuration does. engine.conservation: every arrival has one outcome
// (unless max_seconds ends it).
Result<SimulationSummary> simulate(const SimulationOptions& options, Workload& workload,
                                   const SimulationCallbacks& callbacks = {});

}  // namespace pagoda
