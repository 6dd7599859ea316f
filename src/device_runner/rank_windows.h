#pragma once
// RankWindows: the windows through which the kernels of a group's ranks exchange parts of rows
// (device/kernels/rank_args.h): this rank's own, and those of the others, each on its own device. Ranks are
// processes of one machine, or threads. Waits of kernels have a deadline in the kernel.
#include <memory>

#include "device_runner/rank_carrier.h"

namespace pagoda::device_runner {

class RankWindows final : public RankCarrier {
 public:
  // `widest`: floats of the widest part of a row that is ever exchanged. A window has space for many of them.
  static Result<std::unique_ptr<RankWindows>> create(device::Device& device, device::StreamId stream,
                                                     const ParallelContext& parallel, std::int64_t widest);

  // Opens the others' windows.
  Status connect() override;
  void begin() override {}
  Status check() override;
  std::int64_t size_bytes() const override { return bytes_; }

 private:
  using RankCarrier::RankCarrier;

  device::Window own_;
  std::int64_t bytes_ = 0;
};

}  // namespace pagoda::device_runner
