#include "cli/assembly/devices.h"

#include "base/strings.h"
#include "device/cuda/cuda_device.h"
#include "device/emulated/emulated_device.h"

namespace pagoda {

Status check_device_flags(const EngineFlags& flags) {
  if (!uses_device(flags)) return ok_status();
  const auto refuse = [&flags](const std::string& what) {
    return invalid_argument(concat("--device ", flags.device, " cannot be had with ", what));
  };
  if (flags.tensor_parallel_size > 1)
    return refuse("--tensor-parallel-size: a device is not shared by ranks");
  if (flags.backend != "cpu") return refuse("--backend reference, which is the CPU's");
  if (flags.cpu_level != "auto") return refuse("--cpu-level");
  return flags.device == "cuda" ? device::check_cuda().annotate("--device cuda") : ok_status();
}

Result<std::unique_ptr<device::Device>> open_device(const EngineFlags& flags) {
  if (flags.device == "cuda") {
    auto device = device::open_cuda_device();
    return device ? std::move(device) : device.error().annotate("--device cuda");
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
  using device_runner::AttentionKernels;
  using device_runner::MatrixProducts;
  return {.attention = flags.device_attention == "plain"   ? AttentionKernels::plain
                       : flags.device_attention == "tiles" ? AttentionKernels::tiles
                                                           : AttentionKernels::automatic,
          .products = flags.device_products == "cublaslt" ? MatrixProducts::library
                      : flags.device_products == "tiles"  ? MatrixProducts::tiles
                      : flags.device_products == "plain"  ? MatrixProducts::plain
                                                          : MatrixProducts::automatic};
}

}  // namespace pagoda
