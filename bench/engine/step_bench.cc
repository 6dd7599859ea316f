// step_bench [STEPS]: the engine's own time per step, without a model: scheduler, KV manager, decoding and
// outputs are real, and the runner returns one token per sequence at once. Prints microseconds of CPU time
// per decode step for 1 and 256 sequences and pools of 300 and 300,000 blocks, half of which their prompts
// take, up to 16,384 tokens each: the 10th percentile and the median, since other programs on the machine
// only increase the times. The last column is the median time of the KV manager's usage() alone, over the
// same steps.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "engine/engine_core.h"
#include "kv_cache/paged_kv_manager.h"
#include "scheduler/vllm_scheduler.h"

namespace {

using namespace pagoda;

constexpr std::int32_t kBlockSize = 16, kVocabulary = 32'000, kMaxContext = 16'384, kMaxOutput = 2000;

double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// The time of one call, which is far below the cost of reading the clock.
double account_us(const KvManager& kv) {
  constexpr int kCalls = 100;
  std::int64_t sum = 0;
  const double begin = cpu_us();
  for (int i = 0; i < kCalls; ++i) sum += kv.inspection().usage().token_slots;
  const double us = (cpu_us() - begin) / kCalls;
  if (sum < 0) std::abort();
  return us;
}

class OneTokenRunner final : public ModelRunner {
 public:
  StepResult run(const ScheduledBatch& batch) override {
    StepResult result;
    result.sequences.resize(batch.sequences.size());
    for (std::size_t i = 0; i < batch.sequences.size(); ++i)
      if (batch.sequences[i].sample) result.sequences[i].candidates = {{.token = ++next_ % kVocabulary}};
    return result;
  }

 private:
  TokenId next_ = 0;
};

class CountingSink final : public OutputSink {
 public:
  void on_output(RequestOutput output) override { num_deltas += std::ssize(output.deltas); }
  std::int64_t num_deltas = 0;
};

struct Case {
  std::int32_t num_sequences, num_blocks;
};

void measure(const Case& shape, int num_steps) {
  const std::int64_t room = std::int64_t{shape.num_blocks / shape.num_sequences} * kBlockSize;
  const auto context = static_cast<std::int32_t>(std::min<std::int64_t>(kMaxContext, room / 2));
  const auto output = static_cast<std::int32_t>(std::min<std::int64_t>(room - context, kMaxOutput));
  const EngineConfig config{.max_model_len = context + output + 1,
                            .max_num_seqs = shape.num_sequences,
                            .max_num_batched_tokens = 8192,
                            .block_size = kBlockSize,
                            .vocab_size = kVocabulary,
                            .log_stats = false};
  EngineParts parts;
  parts.kv = std::make_unique<PagedKvManager>(
      PagedKvConfig{.block_size = kBlockSize, .num_blocks = shape.num_blocks, .model_id = "bench"});
  parts.scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *parts.kv);
  parts.runner = std::make_unique<OneTokenRunner>();
  SteadyClock clock;
  MetricsRegistry metrics;
  EngineCore core(config, std::move(parts), clock, metrics);
  const auto sink = std::make_shared<CountingSink>();
  std::vector<double> times, accounts;
  std::uint64_t next = 1;
  while (static_cast<int>(times.size()) < num_steps) {
    const std::uint64_t first = next;
    for (std::int32_t i = 0; i < shape.num_sequences; ++i) {
      Request request;
      request.id = RequestId{next++};
      for (std::int32_t t = 0; t < context; ++t)
        request.prompt_token_ids.push_back(static_cast<TokenId>((i * 131 + t) % kVocabulary));
      request.sampling.max_tokens = output;
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      if (!core.submit(std::move(request), sink).ok()) std::abort();
    }
    // Until every sequence decodes.
    for (std::int64_t before = 0; before < shape.num_sequences;) {
      const std::int64_t had = sink->num_deltas;
      core.step();
      before = sink->num_deltas - had;
    }
    for (const std::int64_t finished = core.requests().num_finished();
         core.requests().num_finished() == finished;) {
      const double begin = cpu_us();
      core.step();
      times.push_back(cpu_us() - begin);
      accounts.push_back(account_us(core.kv()));
    }
    times.pop_back();  // sequences finished in this step
    for (std::uint64_t id = first; id < next; ++id) core.abort(RequestId{id});
  }
  std::ranges::sort(times);
  std::ranges::sort(accounts);
  std::printf("%8d %8d %10.2f %10.2f %10.3f\n", shape.num_sequences, shape.num_blocks,
              times[times.size() / 10], times[times.size() / 2], accounts[accounts.size() / 2]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int num_steps = argc > 1 ? std::atoi(argv[1]) : 2000;
  if (num_steps < 1) {
    std::fputs("usage: step_bench [STEPS]\n", stderr);
    return 2;
  }
  std::printf("%8s %8s %10s %10s %10s\n", "seqs", "blocks", "p10 us", "median us", "usage us");
  for (const Case shape : {Case{1, 300}, Case{256, 300}, Case{1, 300'000}, Case{256, 300'000}})
    measure(shape, num_steps);
  return 0;
}
