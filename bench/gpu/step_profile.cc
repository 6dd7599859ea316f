// The time of a step and of each of its kernels, as JSON lines. In the step, SEQUENCES sequences decode a
// token after CONTEXT others, together with PROMPTS prompts of LENGTH tokens; either may be 0. The first line
// is for the whole step, without graphs and events: its time, the host's part of it, and the host's calls to
// the device. Then follows, for the same step with events around its launches, one line per kernel, the
// longest first. Events slow a step down by some microseconds per launch: they show shares, and idle_us, the
// step's time minus that of all kernels, is too small by as much. On the emulated device (for rehearsals)
// times are meaningless.
//   step_profile cuda|emulated MODEL [SEQUENCES [CONTEXT [PROMPTS [LENGTH]]]]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "bench_main.h"
#include "device_runner/device_model_runner.h"
#include "loader/model_source.h"
#include "watched_device.h"

namespace pagoda::device_runner {
namespace {

constexpr std::int32_t kBlock = 16, kSteps = 4;

struct Shape {
  std::int32_t sequences = 1, context = 576, prompts = 0, length = 512;
};

class Profile {
 public:
  explicit Profile(const Shape& shape)
      : shape_(shape), tokens_(static_cast<std::size_t>(shape.sequences + shape.prompts)) {
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      for (std::int32_t j = 0; j < (decodes(i) ? shape.context : shape.length); ++j)
        tokens_[i].push_back((31 * j + static_cast<std::int32_t>(i)) % 64);
    params_.temperature = 0;
  }

  Status run(std::unique_ptr<device::Device> device, const std::string& model) {
    auto source = ModelSource::open(model);
    if (!source) return source.error();
    auto watched = std::make_unique<device::WatchedDevice>(std::move(device));
    device::WatchedDevice& there = *watched;
    const auto sequences = static_cast<std::int32_t>(tokens_.size());
    const RunnerOptions options = {
        .block_size = kBlock,
        .max_context = blocks() * kBlock,
        .max_num_batched_tokens = std::max(shape_.context, shape_.sequences + shape_.prompts * shape_.length),
        .max_num_seqs = sequences,
        .num_blocks = sequences * blocks()};
    auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                            std::move(watched), {.graphs = GraphUse::off});
    if (!runner) return runner.error();
    for (std::size_t first = 0; first < tokens_.size(); first += at_once(options))
      PAGODA_RETURN_IF_ERROR(step(**runner, first, std::min(first + at_once(options), tokens_.size()), true));
    PAGODA_RETURN_IF_ERROR(whole_step(**runner));  // loads the kernels
    (void)there.take_calls();
    const SteadyClock clock;
    const TimeNs before = clock.now();
    for (std::int32_t i = 0; i < kSteps; ++i) PAGODA_RETURN_IF_ERROR(whole_step(**runner));
    const double wall = microseconds(clock.now() - before);
    const device::DeviceCalls calls = there.take_calls();
    PAGODA_RETURN_IF_ERROR(there.start_profile());
    for (std::int32_t i = 0; i < kSteps; ++i) PAGODA_RETURN_IF_ERROR(whole_step(**runner));
    auto times = there.end_profile();
    if (!times) return times.error();
    std::ranges::sort(*times, std::greater(), &device::KernelTime::microseconds);
    print_step(wall, calls, *times);
    for (const device::KernelTime& time : *times)
      std::printf("{\"case\": \"profile\", %s, \"kernel\": \"%s\", \"launches\": %.1f, \"step_us\": %.2f}\n",
                  name().c_str(), time.kernel, static_cast<double>(time.launches) / kSteps,
                  time.microseconds / kSteps);
    return ok_status();
  }

 private:
  static double microseconds(TimeNs time) { return static_cast<double>(time) / (1e3 * kSteps); }
  static std::size_t index(std::int32_t count) { return static_cast<std::size_t>(count); }
  bool decodes(std::size_t sequence) const { return sequence < index(shape_.sequences); }
  std::int32_t blocks() const {
    const std::int32_t longest =
        std::max(shape_.sequences > 0 ? shape_.context + 2 * kSteps + 3 : 0, shape_.length + 1);
    return (longest + kBlock - 1) / kBlock;
  }
  // Number of prompts per step while contexts are written to the cache.
  std::size_t at_once(const RunnerOptions& options) const {
    const std::int32_t longest = std::max(shape_.context, shape_.length);
    return index(std::max(1, options.max_num_batched_tokens / longest));
  }
  std::string name() const {
    char words[160];
    std::snprintf(words, sizeof(words), "\"sequences\": %d, \"context\": %d, \"prompts\": %d, \"length\": %d",
                  shape_.sequences, shape_.context, shape_.prompts, shape_.length);
    return words;
  }

  void print_step(double wall, const device::DeviceCalls& calls,
                  const std::vector<device::KernelTime>& times) const {
    const double kernels = std::accumulate(
        times.begin(), times.end(), 0.0,
        [](double sum, const device::KernelTime& time) { return sum + time.microseconds / kSteps; });
    std::printf(
        "{\"case\": \"step\", %s, \"rows\": %d, \"wall_us\": %.2f, \"host_us\": %.2f, \"kernels_us\": %.2f, "
        "\"idle_us\": %.2f, \"launches\": %.1f, \"launching_us\": %.2f, \"copies\": %.1f, \"copying_us\": "
        "%.2f, "
        "\"copied_bytes\": %.0f, \"waits\": %.1f, \"allocations\": %.1f}\n",
        name().c_str(), shape_.sequences + shape_.prompts * shape_.length, wall,
        wall - microseconds(calls.waiting), kernels, std::max(0.0, wall - kernels), per_step(calls.launches),
        microseconds(calls.launching), per_step(calls.copies), microseconds(calls.copying),
        static_cast<double>(calls.copied_bytes) / kSteps, per_step(calls.waits), per_step(calls.allocations));
  }
  static double per_step(std::int64_t count) { return static_cast<double>(count) / kSteps; }

  Status whole_step(DeviceModelRunner& runner) { return step(runner, 0, tokens_.size(), false); }

  // Each of these sequences has a draw, after all of its tokens from the first on; or, if it decodes, after
  // the last one, and the next step has another.
  Status step(DeviceModelRunner& runner, std::size_t first, std::size_t end, bool whole) {
    std::vector<std::vector<BlockId>> tables(end - first);
    ScheduledBatch batch;
    for (std::size_t i = first; i < end; ++i) {
      std::vector<BlockId>& table = tables[i - first];
      for (std::int32_t block = 0; block < blocks(); ++block)
        table.push_back(static_cast<BlockId>(static_cast<std::int32_t>(i) * blocks() + block));
      const std::vector<TokenId>& tokens = tokens_[i];
      ScheduledSequence sequence;
      sequence.id = static_cast<SequenceId>(i + 1);
      sequence.num_computed_tokens = whole || !decodes(i) ? 0 : static_cast<std::int32_t>(tokens.size()) - 1;
      sequence.tokens = std::span(tokens).subspan(index(sequence.num_computed_tokens));
      sequence.all_tokens = tokens;
      sequence.num_prompt_tokens = decodes(i) ? shape_.context : shape_.length;
      sequence.block_table = table;
      sequence.sample = true;
      sequence.spec.params = &params_;
      batch.num_tokens += static_cast<std::int32_t>(sequence.tokens.size());
      batch.sequences.push_back(sequence);
    }
    const StepResult result = runner.run(batch);
    PAGODA_RETURN_IF_ERROR(result.status);
    for (std::size_t i = first; i < end; ++i)
      if (decodes(i)) tokens_[i].push_back(5);
    return ok_status();
  }

  Shape shape_;
  std::vector<std::vector<TokenId>> tokens_;
  SamplingParams params_;
};

int main_of(int argc, char** argv) {
  const auto number = [&](int at, int least, int otherwise) {
    return argc > at ? std::clamp(std::atoi(argv[at]), least, 1 << 14) : otherwise;
  };
  const Shape shape = {.sequences = number(3, 0, 1),
                       .context = number(4, 1, 576),
                       .prompts = number(5, 0, 0),
                       .length = number(6, 1, 512)};
  const bool wrong = argc < 3 || argc > 7 || shape.sequences + shape.prompts == 0;
  return device::bench_main("step_profile", " MODEL [SEQUENCES [CONTEXT [PROMPTS [LENGTH]]]]", wrong, argc,
                            argv, [&](std::unique_ptr<device::Device> device, bool) {
                              return Profile(shape).run(std::move(device), argv[2]);
                            });
}

}  // namespace
}  // namespace pagoda::device_runner

int main(int argc, char** argv) { return pagoda::device_runner::main_of(argc, argv); }
