#pragma once
// Tests whether products of 8-bit floats by warpgroups (KernelLaunches::linear_float8) behave as expected on
// a device: sums have few bits, which no document describes, but depend only on the element's own row and
// column. All forms must give the same bits for numbers of every magnitude; where every term and sum is a
// small integer, they must equal products by warps. Requires has_warpgroups(). Threads: the device's caller.
#include "base/status.h"
#include "device/device.h"

namespace pagoda::device {

Result<bool> check_float8_products(Device& device, StreamId stream);

}  // namespace pagoda::device
