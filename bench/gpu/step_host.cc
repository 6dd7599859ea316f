// Measures the host's work for a decode step, with a device that does nothing and completes at once: only the
// runner's part (check, lay out, copy into pinned memory, launch, take draws), in JSON lines by number of
// sequences. Needs no GPU. Nothing is computed, so the drawn tokens are meaningless.
//   step_host MODEL [CONTEXT]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/kernel_table.h"
#include "device_runner/device_model_runner.h"
#include "loader/model_source.h"
#include "models/read_config.h"

namespace pagoda::device_runner {
namespace {

constexpr std::int32_t kBlock = 16, kSteps = 400, kWarmup = 20;

// Counts the calls made to it. A graph is one launch.
class IdleDevice final : public device::Device {
 public:
  struct Calls {
    std::int64_t copies_in = 0, bytes_in = 0, copies_out = 0, launches = 0, graphs = 0, waits = 0;
  };
  Calls calls;

  std::string describe() const override { return "a device that does nothing"; }
  Status lost() const override { return ok_status(); }
  std::span<const device::Kernel> kernels() const override { return device::emulated_kernels(); }
  bool has_clusters() const override { return true; }
  bool has_warpgroups() const override { return false; }
  bool launch_early(bool early) override { return early; }
  Result<std::byte*> allocate(std::size_t bytes, std::string_view) override {
    return static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  }
  Status free(std::byte* memory) override {
    std::free(memory);
    return ok_status();
  }
  std::size_t free_bytes() const override { return std::size_t{1} << 34; }
  Result<std::byte*> allocate_pinned(std::size_t bytes) override {
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    std::memset(memory, 0, bytes);
    return memory;
  }
  Status free_pinned(std::byte* memory) override { return free(memory); }
  Result<device::StreamId> create_stream() override { return device::StreamId{streams_++}; }
  Result<device::EventId> create_event() override { return device::EventId{events_++}; }
  Status record(device::EventId, device::StreamId) override { return ok_status(); }
  Status wait(device::StreamId, device::EventId) override { return ok_status(); }
  Status synchronize(device::StreamId) override { return waited(); }
  Status synchronize_event(device::EventId) override { return waited(); }
  Status copy_in(device::StreamId, std::byte*, const std::byte*, std::size_t bytes) override {
    ++calls.copies_in;
    calls.bytes_in += static_cast<std::int64_t>(bytes);
    return ok_status();
  }
  Status copy_out(device::StreamId, std::byte*, const std::byte*, std::size_t) override {
    ++calls.copies_out;
    return ok_status();
  }
  Status copy(device::StreamId, std::byte*, const std::byte*, std::size_t) override { return ok_status(); }
  Status launch(device::StreamId, const device::Kernel&, const device::LaunchShape&, const void*) override {
    ++calls.launches;
    return ok_status();
  }
  Status begin_capture(device::StreamId) override { return ok_status(); }
  Result<device::GraphId> end_capture(device::StreamId) override { return device::GraphId{graphs_++}; }
  Status launch_graph(device::StreamId, device::GraphId) override {
    ++calls.graphs;
    return ok_status();
  }
  Status destroy_graph(device::GraphId) override { return ok_status(); }
  Status open_products() override { return unavailable("none"); }
  Status multiply(device::StreamId, const device::ProductArgs&) override { return ok_status(); }
  Status open_collectives() override { return unavailable("none"); }
  Result<device::GroupName> name_group() override { return unavailable("none"); }
  Status join_group(const device::GroupName&, std::int32_t, std::int32_t,
                    std::chrono::milliseconds) override {
    return unavailable("none");
  }
  Status sum_over_group(device::StreamId, float*, std::int64_t) override { return ok_status(); }
  Status gather_of_group(device::StreamId, const float*, float*, std::int64_t) override {
    return ok_status();
  }
  std::uint32_t exchanges_done() const override { return 0; }
  Status group_error() override { return ok_status(); }
  void leave_group(const Status&) override {}
  Status start_profile() override { return ok_status(); }
  Result<std::vector<device::KernelTime>> end_profile() override { return std::vector<device::KernelTime>(); }
  std::size_t granule() const override { return std::size_t{2} << 20; }
  Result<std::byte*> reserve(std::size_t) override { return unavailable("none"); }
  Status release(std::byte*) override { return ok_status(); }
  Result<device::PhysicalId> create_physical(std::size_t) override { return unavailable("none"); }
  Status destroy_physical(device::PhysicalId) override { return ok_status(); }
  Status map(std::byte*, device::PhysicalId) override { return ok_status(); }
  Status set_access(std::byte*, std::size_t) override { return ok_status(); }
  Status unmap(std::byte*, std::size_t) override { return ok_status(); }
  Result<device::Window> create_window(std::size_t) override { return unavailable("none"); }
  Result<std::byte*> open_window(const device::WindowHandle&) override { return unavailable("none"); }

 private:
  Status waited() {
    ++calls.waits;
    return ok_status();
  }
  std::int32_t streams_ = 0, events_ = 0, graphs_ = 0;
};

Status measure(const std::string& model, std::int32_t sequences, std::int32_t context) {
  auto source = ModelSource::open(model);
  if (!source) return source.error();
  const std::int32_t blocks = (context + kSteps + kWarmup + kBlock) / kBlock;
  auto info = read_model_config(**source);
  if (!info) return info.error();
  info->decoder.max_positions = context + kSteps + kWarmup + 1;
  RunnerOptions options = {.block_size = kBlock,
                           .max_context = context + kSteps + kWarmup + 1,
                           .max_num_batched_tokens = 8192,
                           .max_num_seqs = 256,
                           .num_blocks = sequences * blocks};
  options.model = std::make_shared<const ModelInfo>(*std::move(info));
  auto made = std::make_unique<IdleDevice>();
  IdleDevice& device = *made;
  auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          std::move(made));
  if (!runner) return runner.error();
  SamplingParams params;
  params.temperature = 0;
  std::vector<std::vector<BlockId>> tables(static_cast<std::size_t>(sequences));
  std::vector<TokenId> tokens(static_cast<std::size_t>(context + kSteps + kWarmup + 1), 5);
  for (std::int32_t i = 0; i < sequences; ++i)
    for (std::int32_t block = 0; block < blocks; ++block)
      tables[static_cast<std::size_t>(i)].push_back(static_cast<BlockId>(i * blocks + block));
  std::vector<double> seconds;
  IdleDevice::Calls before;
  const SteadyClock clock;
  for (std::int32_t step = 0; step < kSteps + kWarmup; ++step) {
    if (step == kWarmup) before = device.calls;
    ScheduledBatch batch;
    const auto known = static_cast<std::size_t>(context + step);
    for (std::int32_t i = 0; i < sequences; ++i) {
      ScheduledSequence sequence;
      sequence.id = static_cast<SequenceId>(i + 1);
      sequence.num_computed_tokens = static_cast<std::int32_t>(known) - 1;
      sequence.all_tokens = std::span(tokens).first(known);
      sequence.tokens = sequence.all_tokens.last(1);
      sequence.num_prompt_tokens = context;
      sequence.block_table = tables[static_cast<std::size_t>(i)];
      sequence.sample = true;
      sequence.spec.params = &params;
      batch.sequences.push_back(sequence);
    }
    batch.num_tokens = sequences;
    const TimeNs start = clock.now();
    const StepResult result = (*runner)->run(batch);
    PAGODA_RETURN_IF_ERROR(result.status);
    if (step >= kWarmup) seconds.push_back(to_seconds(clock.now() - start));
  }
  std::ranges::sort(seconds);
  const auto a_step = [&](std::int64_t IdleDevice::Calls::* field) {
    return static_cast<double>(device.calls.*field - before.*field) / kSteps;
  };
  std::printf(
      "{\"case\": \"step_host\", \"sequences\": %d, \"context\": %d, \"median_us\": %.1f, \"p99_us\": %.1f, "
      "\"copies_in\": %.2f, \"bytes_in\": %.0f, \"copies_out\": %.2f, \"graphs\": %.2f, \"launches\": %.2f, "
      "\"waits\": %.2f}\n",
      sequences, context, 1e6 * seconds[seconds.size() / 2], 1e6 * seconds[seconds.size() * 99 / 100],
      a_step(&IdleDevice::Calls::copies_in), a_step(&IdleDevice::Calls::bytes_in),
      a_step(&IdleDevice::Calls::copies_out), a_step(&IdleDevice::Calls::graphs),
      a_step(&IdleDevice::Calls::launches), a_step(&IdleDevice::Calls::waits));
  return ok_status();
}

int main_of(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "step_host MODEL [CONTEXT]\n");
    return 2;
  }
  const int context = argc > 2 ? std::clamp(std::atoi(argv[2]), 1, 1 << 14) : 576;
  for (const std::int32_t sequences : {1, 32, 256})
    if (const Status status = measure(argv[1], sequences, context); !status.ok()) {
      std::fprintf(stderr, "step_host: %s\n", std::string(status.message()).c_str());
      return 1;
    }
  return 0;
}

}  // namespace
}  // namespace pagoda::device_runner

int main(int argc, char** argv) { return pagoda::device_runner::main_of(argc, argv); }
