#pragma once
// The CUDA device: device.h on the CUDA runtime, which is linked statically, so that one program starts with
// and without a GPU or its driver. Builds without the toolkit have no CUDA device (cmake/cuda.cmake); these
// functions then say so. Run on an H200: docs/devices.md.
#include <cstdint>
#include <memory>
#include <string>

#include "device/device.h"

namespace pagoda::device {

// One line with the device code in this program: "kernels for sm_80 and sm_90a, …", or that there is none.
std::string cuda_build();

// One line with the library that --device-products cublaslt would use, or why there is none.
std::string cuda_products();

// Likewise for the library that --disable-custom-all-reduce would use.
std::string cuda_exchanges();

// `index`: among the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order. unavailable: this build has no
// device code, or there is no such GPU, or no driver; the message is one line that says which.
Status check_cuda(std::int32_t index);
// Whether hardware errors also lose the device while nothing runs (xid_watch.h). Tests and benchmarks use
// `unwatched`: they see the errors of their calls, and may open thousands of devices.
enum class XidErrors : std::uint8_t { watched, unwatched };
// unavailable: as above, or the program's device code does not run on the GPU.
Result<std::unique_ptr<Device>> open_cuda_device(std::int32_t index = 0,
                                                 XidErrors errors = XidErrors::watched);

}  // namespace pagoda::device
