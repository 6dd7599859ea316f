#pragma once
// check_bulk_products(): tests which products by warpgroups (kernels/linear_bulk.cuh,
// kernels/linear_narrow.cuh) give the same bits on this device as products by warps, on numbers where another
// order or rounding of sums would show. No document promises this. A device that differs must not use both:
// the bits of a row would depend on the number of rows beside it. Each kernel is tested by its own product,
// with partial tiles and several stages of k. Errors: the device's. All memory allocated by the check is
// freed when it returns.
#include "device/kernel_launches.h"

namespace pagoda::device {

// Returns the forms in `asked` whose bits agree; all of them if the device has no warpgroups and therefore
// uses none.
Result<WarpgroupForms> check_bulk_products(Device& device, StreamId stream, const WarpgroupForms& asked);

}  // namespace pagoda::device
