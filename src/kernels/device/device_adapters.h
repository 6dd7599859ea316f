#pragma once
// DeviceAdapters: copies of adapters' factors (kernels/low_rank.h) in a device's memory. An adapter comes
// with the first step that has rows of it, and goes with the next step after nobody holds it any more. Not
// here: who holds adapters (models/weights/adapter_set.h), and their products (low_rank.cc). Errors: the
// device's. Threads: the device's caller. Owner: the runner; the device outlives it.
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

  // Those of `held` are there when this returns. Waits for the stream where any comes or goes. Where memory
  // does not suffice, those go that this step has no rows of; resource_exhausted: it does not suffice then.
  Status bring(std::span<const Held> held);
  // Frees all, which nothing uses any more.
  void clear() { placed_.clear(); }

  // By the slots of matrices, as many as any adapter has that was brought; this one was.
  const device::LowRankFactors* of(const AdapterFactors& factors) const;
  std::int32_t most_ranks() const;  // the largest rank of a matrix of any that is there
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
