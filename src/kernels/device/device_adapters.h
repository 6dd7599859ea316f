#pragma once
// DeviceAdapters: copies of adapters' factors (kernels/low_rank.h) in a device's memory. An adapter is copied
// for the first step that has rows with it, and freed at the next step after it is no longer held. Not here:
// which adapters are held (models/weights/adapter_set.h), and their products (low_rank.cc). Errors: the
// device's. Threads: the device's caller. Owner: the runner; the device must outlive it.
#include <memory>
#include <span>
#include <vector>

#include "device/device_array.h"
#include "device/kernels/low_rank_args.h"
#include "kernels/low_rank.h"

namespace pagoda {

class DeviceAdapters {
 public:
  using Held = std::shared_ptr<const AdapterFactors>;

  DeviceAdapters(device::Device& device, device::StreamId stream) : device_(device), stream_(stream) {}

  // Makes the adapters in `held` available. Waits for the stream if any adapter is added or removed. If
  // memory is insufficient, frees those without rows in this step; resource_exhausted: still insufficient.
  Status bring(std::span<const Held> held);
  // Frees all; none may be in use.
  void clear() { placed_.clear(); }

  // The factors by the slots of matrices, as many as any adapter that was copied has. `factors` must have
  // been copied.
  const device::LowRankFactors* of(const AdapterFactors& factors) const;
  std::int32_t most_ranks() const;  // the largest rank of any matrix of the adapters present
  std::int64_t size_bytes() const;

 private:
  struct Placed {
    const AdapterFactors* of = nullptr;
    std::weak_ptr<const AdapterFactors> held;
    device::DeviceArray<std::byte> memory;
    std::int32_t most_ranks = 0;
  };
  Result<Placed> place(const Held& held);
  template <class Which>
  Status drop(Which which);

  device::Device& device_;
  device::StreamId stream_;
  std::vector<Placed> placed_;
};

}  // namespace pagoda
