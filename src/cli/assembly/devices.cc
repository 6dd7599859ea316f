#include "cli/assembly/devices.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "cli/assembly/open_devices.h"
#include "cli/flags/peer_flags.h"
#include "device/cuda/cuda_device.h"
#include "device/kernels/rank_args.h"
#include "kernels/backend.h"
#include "model_runner/distributed_model_runner.h"

namespace pagoda {
namespace {

// The error of a build without devices if a device is requested.
Status no_devices(const EngineFlags& flags) {
  if (flags.device == "cuda") return device::check_cuda(0).annotate("--device cuda");
  return unimplemented(concat("--device ", flags.device,
                              ": this build is without it (PAGODA_NATIVE); `script/build pagoda` makes one "
                              "with it"));
}

}  // namespace

std::string cuda_name(std::int32_t gpu) { return gpu == 0 ? "--device cuda" : concat("--device cuda:", gpu); }

std::int32_t gpu_of(const EngineFlags& flags, std::int32_t number) {
  const std::vector<std::int32_t>& named = flags.device_indices;
  if (named.size() > 1) return named[static_cast<std::size_t>(number)];
  return number + (named.empty() ? 0 : named.front());
}

Status check_device_flags(const EngineFlags& flags) {
  if (!uses_device(flags)) return ok_status();
  if (!kHasDevices) return no_devices(flags);
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
  // Ranks are forked, and the CUDA runtime does not survive a fork. Each rank checks for its own GPU.
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

LoadRank rank_loader(const EngineFlags& flags, std::string* describes) {
  if (!uses_device(flags)) return load_on_cpu;
  using Loaded = Result<std::unique_ptr<RankRunner>>;
  using Source = std::shared_ptr<const ModelSource>;
  if constexpr (kHasDevices) {
    return [flags, describes](Source source, const RunnerOptions& options) -> Loaded {
      return load_on_device(flags, std::move(source), options, describes);
    };
  } else {
    return [flags](const Source&, const RunnerOptions&) -> Loaded { return no_devices(flags); };
  }
}

}  // namespace pagoda
