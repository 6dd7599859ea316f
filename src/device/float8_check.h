#pragma once
// Asks a device whether products of 8-bit floats by warpgroups (KernelLaunches::linear_float8) are what they
// are taken for: sums of few bits, which no document describes, but of an element's own row and column alone.
// So all forms have to give the same bits, of numbers of every size; and where every term and sum is a small
// whole number, those of the products by warps. The device has_warpgroups(). Threads: the device's caller.
#include "base/status.h"
#include "device/device.h"

namespace pagoda::device {

Result<bool> check_float8_products(Device& device, StreamId stream);

}  // namespace pagoda::device
