// The time of each kernel of a decode step, by events around its launches, as JSON lines: a line a kernel,
// the longest first, of a step of SEQUENCES sequences with CONTEXT tokens each. Events slow a step down by
// some microseconds a launch: shares are what they show. On the emulated device they say nothing; it is there
// to rehearse.
//   step_profile cuda|emulated MODEL [SEQUENCES [CONTEXT]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench_main.h"
#include "device_runner/device_model_runner.h"
#include "loader/model_source.h"

namespace pagoda::device_runner {
namespace {

constexpr std::int32_t kBlock = 16, kSteps = 4;

class Profile {
 public:
  Profile(std::int32_t sequences, std::int32_t context)
      : tokens_(static_cast<std::size_t>(sequences)), context_(context) {
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      for (std::int32_t j = 0; j < context; ++j)
        tokens_[i].push_back((31 * j + static_cast<std::int32_t>(i)) % 200);
    params_.temperature = 0;
  }

  Status run(std::unique_ptr<device::Device> device, const std::string& model) {
    auto source = ModelSource::open(model);
    if (!source) return source.error();
    device::Device& profiled = *device;
    const auto sequences = static_cast<std::int32_t>(tokens_.size());
    const RunnerOptions options = {.block_size = kBlock,
                                   .max_context = context_ + kSteps + 2,
                                   .max_num_batched_tokens = std::max(context_, sequences),
                                   .max_num_seqs = sequences,
                                   .num_blocks = sequences * blocks()};
    auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                            std::move(device), {.graphs = GraphUse::off});
    if (!runner) return runner.error();
    for (std::size_t i = 0; i < tokens_.size(); ++i) PAGODA_RETURN_IF_ERROR(step(**runner, i, 1, 0));
    PAGODA_RETURN_IF_ERROR(step(**runner, 0, tokens_.size(), context_));  // loads the kernels
    PAGODA_RETURN_IF_ERROR(profiled.start_profile());
    for (std::int32_t i = 1; i <= kSteps; ++i)
      PAGODA_RETURN_IF_ERROR(step(**runner, 0, tokens_.size(), context_ + i));
    auto times = profiled.end_profile();
    if (!times) return times.error();
    std::ranges::sort(*times, std::greater(), &device::KernelTime::microseconds);
    for (const device::KernelTime& time : *times)
      std::printf(
          "{\"case\": \"profile\", \"sequences\": %d, \"context\": %d, \"kernel\": \"%s\", \"launches\": "
          "%.1f, "
          "\"step_us\": %.2f}\n",
          sequences, context_, time.kernel, static_cast<double>(time.launches) / kSteps,
          time.microseconds / kSteps);
    return ok_status();
  }

 private:
  std::int32_t blocks() const { return (context_ + kSteps + 2 + kBlock - 1) / kBlock; }

  // All tokens behind `computed` of `count` sequences from `first` on, and a draw for each.
  Status step(DeviceModelRunner& runner, std::size_t first, std::size_t count, std::int32_t computed) {
    std::vector<std::vector<BlockId>> tables(count);
    ScheduledBatch batch;
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<std::int32_t>(first + i);
      for (std::int32_t block = 0; block < blocks(); ++block)
        tables[i].push_back(static_cast<BlockId>(number * blocks() + block));
      const std::vector<TokenId>& tokens = tokens_[first + i];
      ScheduledSequence sequence;
      sequence.id = static_cast<SequenceId>(number + 1);
      sequence.num_computed_tokens = computed;
      sequence.tokens = std::span(tokens).subspan(static_cast<std::size_t>(computed));
      sequence.all_tokens = tokens;
      sequence.num_prompt_tokens = context_;
      sequence.block_table = tables[i];
      sequence.sample = true;
      sequence.spec.params = &params_;
      batch.num_tokens += static_cast<std::int32_t>(sequence.tokens.size());
      batch.sequences.push_back(sequence);
    }
    const StepResult result = runner.run(batch);
    PAGODA_RETURN_IF_ERROR(result.status);
    for (std::size_t i = 0; i < count; ++i) tokens_[first + i].push_back(5);
    return ok_status();
  }

  std::vector<std::vector<TokenId>> tokens_;
  std::int32_t context_;
  SamplingParams params_;
};

int main_of(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::clamp(std::atoi(argv[at]), 1, 1 << 14) : otherwise;
  };
  const bool wrong = argc < 3 || argc > 5;
  return device::bench_main("step_profile", " MODEL [SEQUENCES [CONTEXT]]", wrong, argc, argv,
                            [&](std::unique_ptr<device::Device> device, bool) {
                              return Profile(number(3, 1), number(4, 576)).run(std::move(device), argv[2]);
                            });
}

}  // namespace
}  // namespace pagoda::device_runner

int main(int argc, char** argv) { return pagoda::device_runner::main_of(argc, argv); }
