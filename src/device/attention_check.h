#pragma once
// check_bulk_attention(): tests whether prefill attention by warpgroups (kernels/attention_bulk.cuh) gives
// the same bits on this device as attention by warps, on numbers where another order or rounding of sums
// would show. No document promises this. A device that differs must not use both: the bits of a token would
// depend on whether prefill or decode computed it. Errors: the device's. All memory allocated by the check is
// freed when it returns.
#include <cstdint>

#include "base/status.h"
#include "device/kernel_launches.h"

namespace pagoda::device {

// `cache`: the element type of the cache: bf16, i8 or fp8. Also true if the device does not support attention
// by warpgroups, or not for heads of this size.
Result<bool> check_bulk_attention(Device& device, StreamId stream, std::int32_t head_size,
                                  Element cache = Element::bf16);

}  // namespace pagoda::device
