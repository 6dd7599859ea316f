#include "cli/assembly/devices.h"

#include "base/strings.h"
#include "cli/flags/peer_flags.h"
#include "device/cuda/cuda_device.h"
#include "device/emulated/emulated_device.h"

namespace pagoda {
namespace {

std::string cuda_name(const EngineFlags& flags) {
  return flags.device_index == 0 ? "--device cuda" : concat("--device cuda:", flags.device_index);
}

}  // namespace

Status check_device_flags(const EngineFlags& flags) {
  if (!uses_device(flags)) return ok_status();
  const auto refuse = [&flags](const std::string& what) {
    return invalid_argument(concat("--device ", flags.device, " does not work with ", what));
  };
  if (flags.tensor_parallel_size > 1) return refuse("--tensor-parallel-size: ranks cannot share a device");
  if (flags.backend != "cpu") return refuse("--backend reference, which runs on the CPU");
  if (flags.cpu_level != "auto") return refuse("--cpu-level");
  if (flags.device != "cuda") return ok_status();
  PAGODA_RETURN_IF_ERROR(device::check_cuda(flags.device_index).annotate(cuda_name(flags)));
  if (flags.data_parallel_size == 1) return ok_status();
  return device::check_cuda(flags.device_index + flags.data_parallel_size - 1)
      .annotate(concat("--data-parallel-size ", flags.data_parallel_size, " takes a GPU for each engine"));
}

Status answer_gpu_flags(const EngineFlags& flags, std::vector<std::string>& ignored) {
  if (uses_device(flags)) {
    const Status status = check_ignored_on_device(ignored);
    return status.ok() ? status : status.annotate(concat("--device ", flags.device));
  }
  if (flags.gpu_memory_utilization) ignored.emplace_back("--gpu-memory-utilization");
  if (flags.num_gpu_blocks_override) ignored.emplace_back("--num-gpu-blocks-override");
  if (flags.enforce_eager) ignored.emplace_back("--enforce-eager");
  return ok_status();
}

Result<std::unique_ptr<device::Device>> open_device(const EngineFlags& flags) {
  if (flags.device == "cuda") {
    auto device = device::open_cuda_device(flags.device_index);
    return device ? std::move(device) : device.error().annotate(cuda_name(flags));
  }
  const EmulatedDeviceFlags& asked = flags.emulated_device;
  auto device =
      device::emulated::EmulatedDevice::create({.memory_bytes = static_cast<std::size_t>(asked.memory_bytes),
                                                .granule = static_cast<std::size_t>(asked.granule_bytes),
                                                .seed = asked.seed,
                                                .refused_allocation = asked.refused_allocation,
                                                .lost_launch = asked.lost_launch});
  if (!device) return device.error().annotate("--device emulated");
  return std::unique_ptr<device::Device>(*std::move(device));
}

device_runner::DeviceKernels device_kernels(const EngineFlags& flags) {
  return {.attention = flags.device_attention == "plain"   ? AttentionKernels::plain
                       : flags.device_attention == "tiles" ? AttentionKernels::tiles
                                                           : AttentionKernels::automatic,
          .products = flags.device_products == "cublaslt" ? MatrixProducts::library
                      : flags.device_products == "tiles"  ? MatrixProducts::tiles
                      : flags.device_products == "plain"  ? MatrixProducts::plain
                                                          : MatrixProducts::automatic,
          .graphs = flags.enforce_eager              ? device_runner::GraphUse::off
                    : flags.device_graphs == "check" ? device_runner::GraphUse::check
                                                     : device_runner::GraphUse::automatic};
}

}  // namespace pagoda
