#include "sim/fault_run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <set>

#include "base/random.h"
#include "base/strings.h"
#include "load/list_workload.h"
#include "request/kv_groups.h"

namespace pagoda {
namespace {

std::atomic<std::uint64_t> running_seed{0};

// Prints the seed; calls only async-signal-safe functions.
void on_abort_signal(int) {
  char buffer[64] = "fault seed ";
  std::size_t length = 11;
  char digits[24];
  std::size_t count = 0;
  std::uint64_t seed = running_seed.load();
  do digits[count++] = static_cast<char>('0' + seed % 10);
  while ((seed /= 10) > 0);
  while (count > 0) buffer[length++] = digits[--count];
  buffer[length++] = '\n';
  [[maybe_unused]] const auto written = write(STDERR_FILENO, buffer, length);
}

class SeedNote {
 public:
  explicit SeedNote(std::uint64_t seed) {
    running_seed.store(seed);
    before_ = std::signal(SIGABRT, on_abort_signal);
  }
  ~SeedNote() { std::signal(SIGABRT, before_); }
  SeedNote(const SeedNote&) = delete;
  SeedNote& operator=(const SeedNote&) = delete;

 private:
  void (*before_)(int);
};

// A stream of random draws, a function of the seed.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  std::int32_t between(std::int32_t low, std::int32_t high) {
    const auto span = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int32_t>(random_bits(seed_, stream_, ++count_) % span);
  }
  bool one_in(std::int32_t n) { return between(1, n) == 1; }
  double share(double most) { return one_in(2) ? 0 : most * random_uniform(seed_, stream_, ++count_); }
  template <class T>
  T among(std::initializer_list<T> values) {
    return among(std::span(values.begin(), values.size()));
  }
  template <class T>
  T among(std::span<const T> values) {
    return values[static_cast<std::size_t>(between(0, static_cast<std::int32_t>(values.size()) - 1))];
  }

 private:
  std::uint64_t seed_, stream_, count_ = 0;
};

CostModel small_cost_model() {
  CostModel out;
  out.name = "faults";
  out.num_layers = 2;
  out.hidden_size = 64;
  out.vocab_size = 64;
  out.max_model_len = 4096;
  out.parameters = 1e6;
  out.attention_width = 64;
  out.kv_bytes_per_token = 1024;
  out.kv_cache_bytes = 1 << 20;
  out.memory_bytes_per_s = out.attention_bytes_per_s = 1e9;
  out.flops_per_s = out.attention_flops_per_s = 1e10;
  out.link_bytes_per_s = out.swap_bytes_per_s = 1e9;
  out.step_overhead_s = 0.005;
  return out;
}

std::vector<PreemptionMode> preemption_modes(bool swap_space) {
  std::vector<PreemptionMode> out;
  for (std::size_t i = 0; i < std::size(kPreemptionPolicies); ++i) {
    switch (kPreemptionPolicies[i].recovery) {
      case Recovery::swapped:
        if (!swap_space) continue;
        break;
      case Recovery::either:
      case Recovery::recomputed:
        break;
    }
    out.push_back(static_cast<PreemptionMode>(i));
  }
  return out;
}

}  // namespace

SimulationOptions fault_options(std::uint64_t seed, const PartsFactory& make_parts) {
  Draw draw(seed, 1);
  SimulationOptions out;
  out.cost = small_cost_model();
  out.make_parts = make_parts;
  out.seed = seed;
  out.check_invariants = true;
  out.modes.scheduler = draw.among<std::string>({"vllm", "vllm", "vllm", "orca", "fastertransformer"});
  const bool baseline = out.modes.scheduler != "vllm";
  if (baseline)
    out.modes.reserve = draw.among<std::string>({"oracle", "pow2", "max"});
  else
    out.modes.kv_manager = draw.among<std::string>({"paged", "virtual"});
  EngineConfig& engine = out.engine;
  engine.block_size = draw.among({1, 2, 4, 7, 16});
  engine.max_model_len = draw.between(2, 96);
  engine.max_num_seqs = draw.among({1, 2, 5, 16});
  engine.enable_chunked_prefill = draw.one_in(2);
  engine.max_num_batched_tokens =
      engine.enable_chunked_prefill ? draw.among({1, 3, 16, 64}) : engine.max_model_len;
  engine.enable_prefix_caching = !baseline && draw.one_in(2);
  engine.eviction = static_cast<Eviction>(seed % std::size(kEvictionPolicies));
  engine.vocab_size = out.cost.vocab_size;
  engine.seed = seed;
  engine.log_stats = false;
  engine.max_waiting = draw.among({1, 4, 1000});
  // From the size of one longest sequence to that of a few of them.
  const auto longest =
      static_cast<std::int32_t>(KvGroup{.tokens_per_row = engine.block_size}.rows_for(engine.max_model_len));
  out.num_blocks = std::max(2, longest + draw.between(0, 3 * longest));
  if (!baseline) {
    if (draw.one_in(2))  // any policy except the first
      engine.scheduling_policy = static_cast<SchedulingPolicy>(
          draw.between(1, static_cast<int>(std::size(kSchedulingPolicies)) - 1));
    out.num_swap_blocks = draw.among<std::int64_t>({0, 1, out.num_blocks / 2, out.num_blocks});
    engine.preemption_mode = draw.among<PreemptionMode>(preemption_modes(out.num_swap_blocks > 0));
    engine.preemption_costs = {draw.share(0.1), draw.share(0.01)};
  } else {
    // The largest power of two in the pool must hold a region.
    std::int64_t region = 1;
    while (region < longest) region *= 2;
    out.num_blocks = std::max(out.num_blocks, region);
  }
  if (draw.one_in(6)) out.replicas = draw.between(2, 3);
  out.router = draw.among({RouterKind::round_robin, RouterKind::least_loaded, RouterKind::prefix_aware});
  out.faults = SimulatedFaults{.seed = seed,
                               .drop_share = draw.share(0.6),
                               .stall_share = draw.share(0.1),
                               .max_stall_s = 1,
                               .burst_s = draw.one_in(3) ? 0.5 : 0,
                               .failure_share = draw.one_in(8) ? 0.02 : 0,
                               .stop_share = draw.share(0.5),
                               .pin_share = baseline ? 0 : draw.share(0.4)};
  if (!baseline && draw.one_in(2)) {
    engine.kv_groups = one_full_group(engine.block_size);
    engine.kv_groups->push_back({.kind = KvKind::window,
                                 .window = draw.between(1, 20),
                                 .tokens_per_row = engine.block_size,
                                 .pages_per_row = draw.between(1, 3)});
    // Keeps the ratio of the pool to the longest sequence.
    out.num_blocks = pages_for(*engine.kv_groups, engine.max_model_len, 1, 0,
                               engine.enable_chunked_prefill ? 0 : engine.max_model_len) *
                     out.num_blocks / longest;
    out.num_blocks = std::max<std::int64_t>(out.num_blocks, 2);
    out.num_swap_blocks = std::min(out.num_swap_blocks, out.num_blocks);
  }
  engine.async_scheduling = !baseline && Draw(seed, 5).one_in(2);
  Draw tiers(seed, 4);
  engine.kv_tiers = engine.enable_prefix_caching && tiers.one_in(2);
  engine.max_adapters = Draw(seed, 6).between(0, 3);
  if (engine.kv_tiers)
    out.tiers = {.num_blocks = tiers.between(1, static_cast<std::int32_t>(4 * out.num_blocks)),
                 .block_bytes = 1024.0 * engine.block_size,
                 .bytes_per_s = tiers.among({1e4, 1e6, 1e9})};
  return out;
}

std::vector<WorkloadRequest> fault_workload(std::uint64_t seed, const SimulationOptions& options) {
  Draw draw(seed, 2), adapters(seed, 7);
  const bool has_adapters = adapters.one_in(3);
  std::vector<WorkloadRequest> out(static_cast<std::size_t>(draw.between(3, 30)));
  const double gap = draw.among({0.0, 0.005, 0.05, 0.2});
  double at = 0;
  const std::int32_t longest = options.engine.max_model_len;
  for (WorkloadRequest& request : out) {
    at += gap * random_uniform(seed, 3, static_cast<std::uint64_t>(&request - out.data()));
    request.arrival_s = at;
    request.prompt_tokens = draw.between(1, longest + (draw.one_in(20) ? 5 : 0));  // some are too long
    request.output_tokens = draw.between(1, longest);
    // The first tenant gets half of the requests
    const std::int32_t tenant = std::max(0, draw.between(-2, 3));
    request.tenant = std::string(1, static_cast<char>('a' + tenant));
    request.weight = 1 + tenant;
    request.priority = draw.between(0, 2);
    if (has_adapters) request.adapter = adapters.between(0, 4);
    if (draw.one_in(8)) request.timeout_s = 0.01 + draw.share(2);
    if (draw.one_in(3)) {
      request.shared_prefix_tokens = draw.between(1, request.prompt_tokens);
      request.shared_prefix_id = static_cast<std::uint64_t>(draw.between(0, 1));
    }
    switch (draw.between(0, 5)) {
      case 0:
        request.n = draw.between(2, 4);
        break;
      case 1:
        request.n = draw.between(1, 2);
        request.best_of = request.n + draw.between(1, 2);
        break;
      case 2:
        request.beam_width = draw.between(1, 4);
        break;
      default:
        break;
    }
  }
  return out;
}

Result<FaultRun> run_fault_seed(std::uint64_t seed, const PartsFactory& make_parts) {
  const SeedNote note(seed);
  const SimulationOptions options = fault_options(seed, make_parts);
  ListWorkload workload(fault_workload(seed, options));
  std::set<std::uint64_t> ended;
  std::string wrong;
  SimulationCallbacks callbacks;
  callbacks.on_outcome = [&](const SimulatedOutcome& outcome) {
    if (!ended.insert(outcome.number).second) wrong = concat("request ", outcome.number, " ended twice");
  };
  auto summary = simulate(options, workload, callbacks);
  if (!summary) return summary.error().annotate(concat("fault seed ", seed));
  FaultRun out;
  out.description =
      concat(options.modes.scheduler, ' ', options.modes.kv_manager, ' ', options.modes.reserve, ", ",
             options.num_blocks, " + ", options.num_swap_blocks, " blocks of ", options.engine.block_size);
  if (std::ssize(ended) != summary->arrived) wrong = "an arrival had no end";
  if (summary->unfinished != 0) wrong = "requests are left";
  if (summary->arrived !=
      summary->completed + summary->aborted + summary->refused + summary->failed + summary->unfinished)
    wrong = "the counts do not add up";
  if (!wrong.empty()) return internal_error(concat("fault seed ", seed, " (", out.description, "): ", wrong));
  out.summary = *std::move(summary);
  return out;
}

}  // namespace pagoda
