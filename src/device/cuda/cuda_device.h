#pragma once
// The CUDA device: device.h on the CUDA runtime, which is linked statically, so that one program starts with
// and without a GPU or its driver. Builds without the toolkit have none (cmake/cuda.cmake), and say so here.
// Run on an H200: docs/devices.md.
#include <cstdint>
#include <memory>
#include <string>

#include "device/device.h"

namespace pagoda::device {

// The device code in this program, in one line: "kernels for sm_80 and sm_90a, …", or that there is none.
std::string cuda_build();

// The library that --device-products cublaslt would use, in one line; or why none.
std::string cuda_products();

// The library that --disable-custom-all-reduce would use, likewise.
std::string cuda_exchanges();

// `index`: of the GPUs that CUDA_VISIBLE_DEVICES leaves, in its order.
// unavailable: this build has no device code, or there is no such GPU, or no driver; one line that says
// which.
Status check_cuda(std::int32_t index);
// Whether errors of the hardware lose the device while nothing runs, too (xid_watch.h). A test or a bench
// asks for none: it sees the errors of its calls, and may open thousands of devices.
enum class XidErrors : std::uint8_t { watched, unwatched };
// unavailable: the same, or the program's device code does not run on the GPU.
Result<std::unique_ptr<Device>> open_cuda_device(std::int32_t index = 0,
                                                 XidErrors errors = XidErrors::watched);

}  // namespace pagoda::device
