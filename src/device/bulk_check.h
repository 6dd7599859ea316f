#pragma once
// check_bulk_products(): which products by warpgroups (kernels/linear_bulk.cuh, kernels/linear_narrow.cuh)
// give on this device the bits of products by warps, on numbers where another order or rounding of sums would
// show. No document says so; a device that differs must not use both, since a row's bits would depend on how
// many rows are beside it. Each kernel is asked for by a product of its own, with tiles that are there in
// part, over several stages of k. Errors: the device's. What it allocates is free again when it returns.
#include "device/kernel_launches.h"

namespace pagoda::device {

// Those of `asked` that do; all of them where the device has no warpgroups, and so takes none.
Result<WarpgroupForms> check_bulk_products(Device& device, StreamId stream, const WarpgroupForms& asked);

}  // namespace pagoda::device
