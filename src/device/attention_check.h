#pragma once
// check_bulk_attention(): whether prefill's attention by warpgroups (kernels/attention_bulk.cuh) gives on
// this device the bits of the one by warps, on numbers where another order or rounding of sums would show. No
// document says so; a device that differs must not use both, since a token's bits would depend on whether it
// was a prompt's or decode's. Errors: the device's. What it allocates is free again when it returns.
#include <cstdint>

#include "base/status.h"
#include "device/kernel_launches.h"

namespace pagoda::device {

// `cache`: its element, bf16, i8 or fp8. True, too, where the device or heads of this size do not
// attend by warpgroups.
Result<bool> check_bulk_attention(Device& device, StreamId stream, std::int32_t head_size,
                                  Element cache = Element::bf16);

}  // namespace pagoda::device
