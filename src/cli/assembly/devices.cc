#include "cli/assembly/devices.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "cli/flags/peer_flags.h"
#include "device/cuda/cuda_device.h"
#include "device/emulated/emulated_device.h"
#include "model_runner/distributed_model_runner.h"

namespace pagoda {
namespace {

Status set_early_launch(const EngineFlags& flags, device::Device& device) {
  if (flags.device_early_launch == "auto") return ok_status();
  const bool wanted = flags.device_early_launch == "on";
  if (device.launch_early(wanted) == wanted) return ok_status();
  return unimplemented("--device-early-launch on needs compute capability 9.0 or later");
}

// A flag's word stands for a value; all others for the automatic choice.
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

std::string cuda_name(std::int32_t gpu) { return gpu == 0 ? "--device cuda" : concat("--device cuda:", gpu); }

}  // namespace

std::int32_t gpu_of(const EngineFlags& flags, std::int32_t number) {
  const std::vector<std::int32_t>& named = flags.device_indices;
  if (named.size() > 1) return named[static_cast<std::size_t>(number)];
  return number + (named.empty() ? 0 : named.front());
}

Status check_device_flags(const EngineFlags& flags) {
  if (!uses_device(flags)) return ok_status();
  const auto refuse = [&flags](const std::string& what) {
    return invalid_argument(concat("--device ", flags.device, " does not work with ", what));
  };
  if (flags.mpi_local_size > 0) return refuse("mpirun: ranks with devices are processes of one machine");
  if (flags.tensor_parallel_size > device::kMostRanks)
    return refuse(concat("--tensor-parallel-size ", flags.tensor_parallel_size, ": it has ",
                         device::kMostRanks, " ranks at most"));
  const std::int32_t wanted = std::max(flags.tensor_parallel_size, flags.data_parallel_size);
  if (flags.device_indices.size() > 1 && std::cmp_not_equal(flags.device_indices.size(), wanted))
    return refuse(concat(wanted, flags.data_parallel_size > 1 ? " engines" : " ranks", ": it names ",
                         flags.device_indices.size(), " GPUs, and each has one"));
  if (flags.device_kernels == "fastest" && flags.device_products != "auto" && flags.device_products != "own")
    return invalid_argument(
        concat("--device-kernels fastest chooses the products: leave out --device-products ",
               flags.device_products));
  if (flags.backend != "cpu") return refuse("--backend reference, which runs on the CPU");
  if (flags.cpu_level != "auto") return refuse("--cpu-level");
  // Ranks are forked, and the CUDA runtime does not outlive a fork: each looks for its own GPU.
  if (flags.device != "cuda" || flags.tensor_parallel_size > 1) return ok_status();
  PAGODA_RETURN_IF_ERROR(device::check_cuda(gpu_of(flags, 0)).annotate(cuda_name(gpu_of(flags, 0))));
  if (flags.data_parallel_size == 1) return ok_status();
  return device::check_cuda(gpu_of(flags, flags.data_parallel_size - 1))
      .annotate(concat("--data-parallel-size ", flags.data_parallel_size, " takes a GPU for each engine"));
}

Status answer_gpu_flags(const EngineFlags& flags, std::vector<std::string>& ignored) {
  if (flags.disable_custom_all_reduce && (!uses_device(flags) || flags.tensor_parallel_size == 1))
    ignored.emplace_back("--disable-custom-all-reduce");
  if (uses_device(flags)) {
    const Status status = check_ignored_on_device(ignored);
    return status.ok() ? status : status.annotate(concat("--device ", flags.device));
  }
  if (flags.gpu_memory_utilization) ignored.emplace_back("--gpu-memory-utilization");
  if (flags.num_gpu_blocks_override) ignored.emplace_back("--num-gpu-blocks-override");
  if (flags.enforce_eager) ignored.emplace_back("--enforce-eager");
  return ok_status();
}

Result<std::unique_ptr<device::Device>> open_device(const EngineFlags& flags, std::int32_t rank) {
  if (flags.device == "cuda") {
    const std::int32_t gpu = gpu_of(flags, rank);
    auto device = device::open_cuda_device(gpu);
    if (!device) return device.error().annotate(cuda_name(gpu));
    PAGODA_RETURN_IF_ERROR(set_early_launch(flags, **device).annotate(cuda_name(gpu)));
    return device;
  }
  const EmulatedDeviceFlags& asked = flags.emulated_device;
  // Faults on demand are the last rank's.
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

Result<std::unique_ptr<device_runner::DeviceModelRunner>> load_on_device(
    const EngineFlags& flags, std::shared_ptr<const ModelSource> source, const RunnerOptions& options,
    std::string* describes) {
  auto device = open_device(flags, options.parallel.rank());
  if (!device) return device.error();
  if (describes != nullptr) *describes = (*device)->describe();
  auto runner = device_runner::DeviceModelRunner::create(std::move(source), options, *std::move(device),
                                                         device_kernels(flags));
  if (!runner) return runner.error().annotate(concat("--device ", flags.device));
  return runner;
}

LoadRank rank_loader(const EngineFlags& flags, std::string* describes) {
  if (!uses_device(flags)) return load_on_cpu;
  return [flags, describes](std::shared_ptr<const ModelSource> source,
                            const RunnerOptions& options) -> Result<std::unique_ptr<RankRunner>> {
    auto runner = load_on_device(flags, std::move(source), options, describes);
    if (!runner) return runner.error();
    return std::unique_ptr<RankRunner>(*std::move(runner));
  };
}

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

}  // namespace pagoda
