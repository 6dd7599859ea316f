#pragma once
// check_bulk_products(): whether products by warpgroups (kernels/linear_bulk.cuh) give on this device the
// bits of products by warps, on numbers where another order or rounding of sums would show. No document says
// so; a device that differs must not use both, since a row's bits would depend on how many rows are beside
// it. Errors: unavailable: they differ; or the device's. What it allocates is free again when it returns.
#include "base/status.h"
#include "device/device.h"

namespace pagoda::device {

// Whether this program takes them for products of so many rows, or of fewer: choices.def.
bool takes_bulk_products(std::int64_t rows);
// ok, too, where the device has no warpgroups.
Status check_bulk_products(Device& device, StreamId stream);

}  // namespace pagoda::device
