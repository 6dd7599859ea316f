#include "cli/assembly/open_devices.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "device/cuda/cuda_device.h"
#include "device/emulated/emulated_device.h"

namespace pagoda {
namespace {

Status set_early_launch(const EngineFlags& flags, device::Device& device) {
  if (flags.device_early_launch == "auto") return ok_status();
  const bool wanted = flags.device_early_launch == "on";
  if (device.launch_early(wanted) == wanted) return ok_status();
  return unimplemented("--device-early-launch on needs compute capability 9.0 or later");
}

// Maps a flag's word to a value; all other words select the automatic choice.
template <class Value>
struct Meaning {
  std::string_view word;
  Value value;
};
template <class Value, std::size_t count>
Value meaning_of(std::string_view word, const Meaning<Value> (&all)[count]) {
  const auto found = std::ranges::find(all, word, &Meaning<Value>::word);
  return found == std::end(all) ? Value::automatic : found->value;
}
constexpr Meaning<AttentionKernels> kAttention[] = {{"plain", AttentionKernels::plain},
                                                    {"tiles", AttentionKernels::tiles},
                                                    {"warpgroups", AttentionKernels::warpgroups}};
constexpr Meaning<MatrixProducts> kProducts[] = {{"cublaslt", MatrixProducts::library},
                                                 {"tiles", MatrixProducts::tiles},
                                                 {"plain", MatrixProducts::plain},
                                                 {"w8a8", MatrixProducts::w8a8}};

Result<std::unique_ptr<device::Device>> open_device(const EngineFlags& flags, std::int32_t rank) {
  if (flags.device == "cuda") {
    const std::int32_t gpu = gpu_of(flags, rank);
    auto device = device::open_cuda_device(gpu);
    if (!device) return device.error().annotate(cuda_name(gpu));
    PAGODA_RETURN_IF_ERROR(set_early_launch(flags, **device).annotate(cuda_name(gpu)));
    return device;
  }
  const EmulatedDeviceFlags& asked = flags.emulated_device;
  // Injected faults happen on the last rank.
  const bool fails = rank == flags.tensor_parallel_size - 1;
  auto device =
      device::emulated::EmulatedDevice::create({.memory_bytes = static_cast<std::size_t>(asked.memory_bytes),
                                                .granule = static_cast<std::size_t>(asked.granule_bytes),
                                                .seed = asked.seed + static_cast<std::uint64_t>(rank),
                                                .refused_allocation = fails ? asked.refused_allocation : 0,
                                                .lost_launch = fails ? asked.lost_launch : 0,
                                                .lost_look = fails ? asked.lost_look : 0,
                                                .nccl = asked.nccl});
  if (!device) return device.error().annotate("--device emulated");
  PAGODA_RETURN_IF_ERROR(set_early_launch(flags, **device));
  return std::unique_ptr<device::Device>(*std::move(device));
}

}  // namespace

device_runner::DeviceKernels device_kernels(const EngineFlags& flags) {
  using device_runner::GraphUse, device_runner::RankParts;
  device_runner::DeviceKernels kernels = {
      .attention = meaning_of(flags.device_attention, kAttention),
      .products = meaning_of(flags.device_products, kProducts),
      .graphs = flags.device_graphs == "check" ? GraphUse::check : GraphUse::automatic,
      .rank_parts = flags.disable_custom_all_reduce ? RankParts::library : RankParts::windows,
      .measure_idle = flags.device_idle};
  if (flags.device_kernels == "fastest") kernels.products = MatrixProducts::fastest;
  if (flags.enforce_eager) kernels.graphs = GraphUse::off;
  return kernels;
}

Result<std::unique_ptr<RankRunner>> load_on_device(const EngineFlags& flags,
                                                   std::shared_ptr<const ModelSource> source,
                                                   const RunnerOptions& options, std::string* describes) {
  auto device = open_device(flags, options.parallel.rank());
  if (!device) return device.error();
  if (describes != nullptr) *describes = (*device)->describe();
  auto runner = device_runner::DeviceModelRunner::create(std::move(source), options, *std::move(device),
                                                         device_kernels(flags));
  if (!runner) return runner.error().annotate(concat("--device ", flags.device));
  return std::unique_ptr<RankRunner>(*std::move(runner));
}

}  // namespace pagoda
