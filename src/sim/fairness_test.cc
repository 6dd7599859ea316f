// Tenants under --scheduling-policy fair: a light one beside a heavy one, shares by weight, and that nobody
// starves. The engine as it is compiled, on a virtual clock.
#include <algorithm>
#include <map>
#include <numeric>

#include "base/random.h"
#include "cli/simulate/simulation_setup.h"
#include "sim/test_support.h"

namespace pagoda {
namespace {

using namespace sim_test;

WorkloadRequest of(const char* tenant, WorkloadRequest request, std::int32_t weight = 1) {
  request.tenant = tenant;
  request.weight = weight;
  return request;
}

SimulationOptions policy_options(const char* policy, std::int32_t max_num_seqs = 256) {
  CostModel cost = plain_cost_model();
  cost.kv_cache_bytes = 1024.0 * 1024 * 256;
  EngineFlags flags;
  flags.scheduling_policy = policy;
  flags.max_num_seqs = max_num_seqs;
  flags.target_itl_ms = 100;
  flags.max_queue = 100'000;
  SimulationOptions options = checked(simulation_options(flags, cost));
  options.check_invariants = false;
  return options;
}

struct TenantFigures {
  std::vector<double> light_ttft;
  double end_s = 0, longest_step_s = 0;
  std::int64_t preemptions = 0;

  double p99() const {
    std::vector<double> sorted = light_ttft;
    std::ranges::sort(sorted);
    return sorted[sorted.size() * 99 / 100];
  }
};

// 500 requests of the heavy tenant are in flight from the start on, and as many more wait as it takes.
TenantFigures run_tenants(const SimulationOptions& options, std::int32_t num_heavy,
                          std::int32_t heavy_output) {
  constexpr double light_every_s = 5, until_s = 150;
  std::vector<WorkloadRequest> requests;
  for (std::int32_t i = 0; i < num_heavy; ++i) {
    const double at = i < 500 ? 0 : until_s * (i - 500) / (num_heavy - 500);
    requests.push_back(of("heavy", request_at(at, 40, heavy_output)));
  }
  for (int i = 0; (i + 1) * light_every_s < until_s; ++i) {
    const double jitter = random_uniform(1, 2, static_cast<std::uint64_t>(i));
    requests.push_back(of("light", request_at((i + 0.5 + 0.5 * jitter) * light_every_s, 40, 4)));
  }
  std::ranges::sort(requests, {}, &WorkloadRequest::arrival_s);
  std::vector<bool> is_light;
  for (const WorkloadRequest& request : requests) is_light.push_back(request.tenant == "light");
  ListWorkload workload(std::move(requests));
  TenantFigures out;
  SimulationCallbacks callbacks;
  callbacks.on_outcome = [&](const SimulatedOutcome& outcome) {
    EXPECT_EQ(outcome.reason, "length");
    if (is_light[outcome.number - 1]) out.light_ttft.push_back(outcome.first_token_s - outcome.arrival_s);
  };
  callbacks.on_step = [&](const StepReport& report, std::span<const ScheduledRef>) {
    // The first one computes the prompts of all.
    if (to_seconds(report.started) > 10)
      out.longest_step_s = std::max(out.longest_step_s, to_seconds(report.finished - report.started));
  };
  const auto summary = simulate(options, workload, callbacks);
  EXPECT_TRUE(summary) << (summary ? "" : summary.error().message());
  out.end_s = summary->duration_s;
  out.preemptions = summary->preemptions;
  return out;
}

// Heavy's requests come faster than they can be served, so that its queue never ends.
TEST(Fairness, ALightClientHardlyNoticesAHeavyOne) {
  struct Case {
    std::int32_t seqs, num_heavy, heavy_output;
  };
  for (const auto& [seqs, num_heavy, heavy_output] : {Case{256, 2900, 24}, {16, 2900, 24}, {64, 1100, 200}}) {
    SCOPED_TRACE(seqs);
    const TenantFigures alone = run_tenants(policy_options("fair", seqs), 0, 0);
    const TenantFigures beside = run_tenants(policy_options("fair", seqs), num_heavy, heavy_output);
    const TenantFigures before = run_tenants(policy_options("fcfs", seqs), num_heavy, heavy_output);
    const double bound = 2 * alone.p99() + 0.150 + beside.longest_step_s;
    std::printf(
        "%d sequences: light alone %.3f s, beside heavy %.3f s of %.3f allowed (fcfs %.1f s); all done in "
        "%.1f s (fcfs %.1f s), %lld preemptions, longest step %.3f s\n",
        seqs, alone.p99(), beside.p99(), bound, before.p99(), beside.end_s, before.end_s,
        static_cast<long long>(beside.preemptions), beside.longest_step_s);
    EXPECT_LE(beside.p99(), bound);
    EXPECT_GT(before.p99(), 3) << "else there is nothing to show";
    EXPECT_LE(beside.end_s, 1.03 * before.end_s);
  }
}

TEST(Fairness, BackloggedTenantsGetServiceByWeight) {
  for (const std::int32_t seqs : {256, 16}) {
    SCOPED_TRACE(seqs);
    std::vector<WorkloadRequest> requests;
    for (int i = 0; i < 3600; ++i) {
      const auto draw = [&](std::uint64_t stream, double low, double high) {
        return static_cast<std::int32_t>(low + (high - low) *
                                                   random_uniform(3, stream, static_cast<std::uint64_t>(i)));
      };
      requests.push_back(of(i % 2 == 0 ? "one" : "three", request_at(0, draw(1, 10, 70), draw(2, 10, 40)),
                            i % 2 == 0 ? 1 : 3));
    }
    ListWorkload workload(std::move(requests));
    SimulationOptions options = policy_options("fair", seqs);
    options.max_seconds = 120;
    std::map<std::int64_t, std::map<std::string, double>> seconds;  // tokens computed, by second
    SimulationCallbacks callbacks;
    callbacks.on_step = [&](const StepReport& report, std::span<const ScheduledRef> refs) {
      const auto second = static_cast<std::int64_t>(to_seconds(report.finished));
      for (std::size_t i = 0; i < refs.size(); ++i)
        seconds[second][refs[i].group->request.tenant] +=
            static_cast<double>(report.batch.sequences[i].tokens.size());
    };
    ASSERT_TRUE(simulate(options, workload, callbacks));
    double worst = 0;
    for (std::int64_t begin = seconds.begin()->first; begin + 30 <= seconds.rbegin()->first; ++begin) {
      double one = 0, three = 0;
      for (std::int64_t second = begin; second < begin + 30; ++second) {
        one += seconds[second]["one"];
        three += seconds[second]["three"];
      }
      worst = std::max(worst, std::abs(three / one / 3 - 1));
    }
    std::printf("%d sequences: service 1:3 within %.1f %% over any 30 s\n", seqs, 100 * worst);
    EXPECT_LE(worst, 0.05);
  }
}

TEST(Fairness, CostsNoThroughput) {
  const auto end_of = [](const char* policy) {
    std::vector<WorkloadRequest> requests;
    for (int i = 0; i < 3000; ++i)
      requests.push_back(of(i % 3 == 0 ? "a" : i % 3 == 1 ? "b" : "c", request_at(0, 40, 24), 1 + i % 3));
    ListWorkload workload(std::move(requests));
    const auto summary = simulate(policy_options(policy), workload);
    EXPECT_TRUE(summary);
    return summary->duration_s;
  };
  EXPECT_LE(end_of("fair"), 1.03 * end_of("fcfs"));
}

// However much the others send: what a tenant waits for is what its own requests take at its share of the
// machine, and what is under way.
TEST(Fairness, NobodyStarves) {
  std::int64_t num_preemptions = 0;
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::uint64_t draws = 0;
    const auto draw = [&](std::int32_t low, std::int32_t high) {
      return low + static_cast<std::int32_t>(random_uniform(seed, 1, ++draws) * (high - low + 1));
    };
    CostModel cost = plain_cost_model();
    EngineFlags flags;
    flags.scheduling_policy = "fair";
    flags.max_num_seqs = draw(2, 12);
    flags.max_model_len = 128;
    flags.kv_cache_memory_bytes = 1024 * 16 * draw(16, 60);
    flags.max_queue = 100'000;
    const SimulationOptions options = checked(simulation_options(flags, cost));
    const std::int32_t tenants = draw(2, 5);
    std::vector<WorkloadRequest> requests;
    double at = 0;
    for (int i = 0; i < 120; ++i) {
      at += 0.04 * random_uniform(seed, 2, static_cast<std::uint64_t>(i));
      const std::int32_t tenant = std::max(0, draw(-8, tenants - 1));  // the first one sends most
      WorkloadRequest request = request_at(at, draw(1, 40), draw(1, 40));
      request.tenant = std::string(1, static_cast<char>('a' + tenant));
      request.weight = 1 + tenant % 3;
      request.priority = draw(0, 2);
      requests.push_back(request);
    }
    const auto service = [](const WorkloadRequest& r) {
      return 0.001 * r.prompt_tokens + 0.01 * r.output_tokens;
    };
    double weights = 0;
    for (std::int32_t tenant = 0; tenant < tenants; ++tenant) weights += 1 + tenant % 3;
    std::map<std::string, double> own;  // everything the tenant will ever ask for
    for (const WorkloadRequest& request : requests) own[request.tenant] += service(request);
    const std::vector<WorkloadRequest> asked = requests;
    ListWorkload workload(std::move(requests));
    std::int64_t ended = 0;
    SimulationCallbacks callbacks;
    callbacks.on_outcome = [&](const SimulatedOutcome& outcome) {
      ++ended;
      const WorkloadRequest& request = asked[outcome.number - 1];
      EXPECT_EQ(outcome.reason, "length") << "seed " << seed;
      const double bound = 2 * own[request.tenant] * weights / request.weight + 4;
      const double waited = outcome.first_token_s - outcome.arrival_s;
      worst = std::max(worst, waited / bound);
      EXPECT_LE(waited, bound) << "seed " << seed << ", tenant " << request.tenant;
    };
    const auto summary = simulate(options, workload, callbacks);
    ASSERT_TRUE(summary) << "seed " << seed << ": " << (summary ? "" : summary.error().message());
    EXPECT_EQ(ended, 120) << "seed " << seed;
    num_preemptions += summary->preemptions;
  }
  std::printf("300 seeds: the longest wait was %.0f %% of what a share explains; %lld preemptions\n",
              100 * worst, static_cast<long long>(num_preemptions));
  EXPECT_GT(num_preemptions, 300);
}

}  // namespace
}  // namespace pagoda
