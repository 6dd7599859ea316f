// Simulations against what theory says, the same bytes from the same seed, and every arrival's one end.
#include "sim/simulation.h"

#include <set>

#include "cli/simulate/simulation_setup.h"
#include "load/workload_spec.h"
#include "sim/summary_text.h"
#include "sim/test_support.h"

namespace pagoda {
namespace {

using namespace sim_test;

SimulationOptions plain_options(const EngineFlags& flags) {
  return checked(simulation_options(flags, plain_cost_model()));
}

struct Outcome {
  SimulationSummary summary;
  std::string csv, json;
};

Outcome run_checked(const SimulationOptions& options, Workload& workload) {
  Outcome out;
  std::set<std::uint64_t> ended;
  SimulationCallbacks callbacks;
  callbacks.on_outcome = [&](const SimulatedOutcome& outcome) {
    EXPECT_TRUE(ended.insert(outcome.number).second) << "request " << outcome.number << " ended twice";
    out.csv += outcome_csv_row(outcome);
  };
  auto summary = simulate(options, workload, callbacks);
  EXPECT_TRUE(summary) << (summary ? "" : summary.error().message());
  out.summary = *std::move(summary);
  const SimulationSummary& s = out.summary;
  EXPECT_EQ(s.arrived, s.completed + s.aborted + s.refused + s.failed + s.unfinished);
  EXPECT_EQ(std::ssize(ended) + s.unfinished, s.arrived);
  out.json = summary_json(s, options);
  return out;
}

Outcome run_checked(const SimulationOptions& options, const std::string& spec) {
  auto workload = open_workload(spec);
  EXPECT_TRUE(workload) << (workload ? "" : workload.error().message());
  return run_checked(options, **workload);
}

TEST(Simulation, ABurstIsToldFromASteadyState) {
  EngineFlags flags;
  flags.max_num_seqs = 4;
  // 80 requests a second are what it serves: 4 at once, of 5 steps of 10 ms.
  const auto warning = [&](const std::string& load) {
    return burst_warning(
        run_checked(plain_options(flags), "uniform:input=1,output=5,requests=" + load).summary);
  };
  EXPECT_NE(warning("400,rate=200").find("latencies of a burst"), std::string::npos);
  EXPECT_EQ(warning("400,rate=60"), "");
  EXPECT_EQ(warning("400"), "") << "all at once is meant";
}

TEST(Simulation, OneRequestTakesItsPromptAndItsTokens) {
  ListWorkload workload({request_at(3, 100, 21)});
  const Outcome out = run_checked(plain_options({}), workload);
  EXPECT_EQ(out.summary.completed, 1);
  EXPECT_EQ(out.summary.num_steps, 21);
  EXPECT_NEAR(out.summary.ttft.statistics().mean, 0.100, 1e-6);  // 100 tokens of 1 ms
  EXPECT_NEAR(out.summary.latency.statistics().mean, 0.100 + 20 * 0.010, 1e-6);
  EXPECT_NEAR(out.summary.tpot.statistics().mean, 0.010, 1e-6);
  EXPECT_NEAR(out.summary.duration_s, 3.3, 1e-6);
  EXPECT_EQ(out.summary.output_tokens, 21);
}

TEST(Simulation, AConstantBatchDecodesAtItsStepTime) {
  // 64 requests, one prompt token each: a step of 64 tokens takes 64 ms, 50 of them.
  std::vector<WorkloadRequest> requests(64, request_at(0, 1, 50));
  ListWorkload workload(requests);
  const Outcome out = run_checked(plain_options({}), workload);
  EXPECT_EQ(out.summary.num_steps, 50);
  EXPECT_NEAR(out.summary.duration_s, 50 * 0.064, 1e-5);
  EXPECT_NEAR(out.summary.batch_by_step, 64, 1e-9);
  EXPECT_NEAR(out.summary.normalized_latency.statistics().mean, 0.064, 1e-6);
}

TEST(Simulation, OneServerWaitsAsMD1Says) {
  // One request at a time, each one step of 100 ms: an M/D/1 queue waits rho S / (2 (1 - rho)).
  constexpr double kService = 0.1, kLoad = 0.3;
  EngineFlags flags;
  flags.max_num_seqs = 1;
  SimulationOptions options = plain_options(flags);
  options.check_invariants = false;
  const Outcome out = run_checked(
      options, concat("uniform:input=100,output=1,requests=60000,rate=", kLoad / kService, ",seed=5"));
  const double wait = out.summary.ttft.statistics().mean - kService;
  const double theory = kLoad * kService / (2 * (1 - kLoad));
  EXPECT_NEAR(wait / theory, 1, 0.05) << wait << " s, theory " << theory;
  EXPECT_NEAR(out.summary.busy_s / out.summary.duration_s, kLoad, 0.01);
}

TEST(Simulation, SameSeedSameBytes) {
  EngineFlags flags;
  flags.seed = 7;
  SimulationOptions options = plain_options(flags);
  options.faults = SimulatedFaults{.seed = 3, .drop_share = 0.2, .stall_share = 0.01, .burst_s = 0.5};
  const std::string spec = "sharegpt:requests=200,rate=3,max_len=512,seed=1";
  const Outcome first = run_checked(options, spec), second = run_checked(options, spec);
  EXPECT_EQ(first.csv, second.csv);
  EXPECT_EQ(first.json, second.json);
  EXPECT_EQ(timeline_svg(first.summary), timeline_svg(second.summary));
  EXPECT_GT(first.summary.aborted, 0);
  options.faults->seed = 4;
  EXPECT_NE(run_checked(options, spec).csv, first.csv);
}

TEST(Simulation, EveryArrivalEndsOnceInEveryMode) {
  for (const char* scheduler : {"vllm", "orca", "fastertransformer"}) {
    for (const char* preemption : {"auto", "swap", "recompute"}) {
      for (const bool chunked : {true, false}) {
        SCOPED_TRACE(::testing::Message() << scheduler << ' ' << preemption << ' ' << chunked);
        EngineFlags flags;
        flags.scheduler = scheduler;
        const bool baseline = flags.scheduler != "vllm";
        if (baseline && std::string(preemption) != "auto") continue;
        flags.preemption_mode = preemption;
        if (!baseline) flags.swap_space_bytes = 1 << 20;
        flags.enable_chunked_prefill = chunked;
        flags.max_model_len = 256;
        flags.kv_cache_memory_bytes = 1024 * 1024;  // 1,024 tokens
        const Outcome out =
            run_checked(plain_options(flags), "uniform:input=1-150,output=1-100,requests=60,rate=20");
        EXPECT_EQ(out.summary.completed, 60);
        if (!baseline) EXPECT_GT(out.summary.preemptions, 0);
      }
    }
  }
}

TEST(Simulation, BeamsAndSamplesShareBlocks) {
  EngineFlags flags;
  for (const char* decoding : {"n=4", "beam=4"}) {
    const Outcome out = run_checked(plain_options(flags),
                                    concat("uniform:input=100,output=40,requests=20,rate=2,", decoding));
    EXPECT_EQ(out.summary.completed, 20);
    EXPECT_GT(out.summary.shared_block_share, 0.1) << decoding;
  }
}

TEST(Simulation, SharedPrefixesHitTheCache) {
  const Outcome out =
      run_checked(plain_options({}), "uniform:input=20,output=5,prefix=160,requests=50,rate=5");
  EXPECT_EQ(out.summary.completed, 50);
  EXPECT_EQ(out.summary.prefix_hits, 49 * 160);
}

TEST(Simulation, OverlongRequestsAndFullQueuesAreRefused) {
  EngineFlags flags;
  flags.max_queue = 2;
  flags.max_num_seqs = 1;
  std::vector<WorkloadRequest> requests(10, request_at(0, 10, 10));
  requests.push_back(request_at(100, 5000, 10));
  ListWorkload workload(requests);
  const Outcome out = run_checked(plain_options(flags), workload);
  EXPECT_EQ(out.summary.refused, 9);  // eight of the crowd: two wait; and the long one
  EXPECT_EQ(out.summary.completed, 2);
}

TEST(Simulation, BadArrivalsAreRefused) {
  for (const double second : {-1.0, 0.5, std::nan(""), 1e300}) {
    ListWorkload workload({request_at(1, 1, 1), request_at(second, 1, 1)});
    const auto summary = simulate(plain_options({}), workload);
    ASSERT_FALSE(summary) << second;
    EXPECT_NE(summary.error().message().find("request 2: arrival_s"), std::string::npos);
  }
}

TEST(Routers, SpreadAndKeepPrefixesTogether) {
  SimulationOptions options = plain_options({});
  options.replicas = 4;
  const std::string spec = "uniform:input=20-200,output=1-60,prefix=256,prefixes=16,requests=400,rate=40";
  std::int64_t hits[3] = {};
  for (const RouterKind kind :
       {RouterKind::round_robin, RouterKind::least_loaded, RouterKind::prefix_aware}) {
    options.router = kind;
    const Outcome out = run_checked(options, spec);
    EXPECT_EQ(out.summary.completed, 400);
    for (const std::int64_t count : out.summary.requests_of_replica) EXPECT_GT(count, 20);
    hits[static_cast<int>(kind)] = out.summary.prefix_hits;
  }
  EXPECT_GT(hits[2], hits[0]);
}

// A router that hears of evictions is not misled by where a prompt has been once, and one that weighs
// requests gives up a cache for an idle engine.
TEST(Routers, KvAwareFindsMoreThanTurnsAndYieldsToLoad) {
  SimulationOptions options = plain_options({});
  options.replicas = 2;
  options.check_invariants = true;
  const auto hits = [&](RouterKind kind, const char* rate) {
    options.router = kind;
    const Outcome out = run_checked(
        options,
        std::string("uniform:input=48-80,output=8,rounds=4,history=440,requests=150,seed=5,rate=") + rate);
    EXPECT_EQ(out.summary.completed, 150);
    for (const std::int64_t count : out.summary.requests_of_replica) EXPECT_GT(count, 30);
    return out.summary.prefix_hits;
  };
  const std::int64_t round_robin = hits(RouterKind::round_robin, "3"), calm = hits(RouterKind::kv_aware, "3");
  EXPECT_GT(calm, round_robin * 5 / 4);
  const std::int64_t busy = hits(RouterKind::kv_aware, "60");
  EXPECT_LT(busy, calm);
  EXPECT_EQ(busy, hits(RouterKind::kv_aware, "60")) << "the same again";
}

// A measured machine has the steps of the server that was measured, unless the flags say otherwise.
TEST(Simulation, StepsAreThoseOfTheServerThatWasMeasured) {
  CostModel cost = plain_cost_model();
  EngineFlags flags;
  flags.max_num_seqs = 8;
  EXPECT_EQ(simulation_options(flags, cost)->engine.max_num_batched_tokens, 2048);
  cost.max_num_batched_tokens = 256;
  EXPECT_EQ(simulation_options(flags, cost)->engine.max_num_batched_tokens, 256);
  flags.enable_chunked_prefill = false;
  EXPECT_EQ(simulation_options(flags, cost)->engine.max_num_batched_tokens, 1024)
      << "a whole prompt, as serve";
  flags.enable_chunked_prefill = true;
  flags.max_num_batched_tokens = 100;
  EXPECT_EQ(simulation_options(flags, cost)->engine.max_num_batched_tokens, 100);
}

}  // namespace
}  // namespace pagoda
