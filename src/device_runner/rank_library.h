#pragma once
// RankLibrary: exchanges parts of rows by the device's own library (device/collectives.h; NCCL). Its kernels
// wait for other ranks without a timeout, so a thread supervises them. The thread leaves the group if no
// exchange has completed within the timeout of one, if the library reports an error, or if a rank has given
// up. The step then ends, and with it the engine.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "device_runner/rank_carrier.h"

namespace pagoda::device_runner {

class RankLibrary final : public RankCarrier {
 public:
  // `widest`: floats of the widest part of a row that is ever gathered.
  static Result<std::unique_ptr<RankLibrary>> create(device::Device& device, device::StreamId stream,
                                                     const ParallelContext& parallel, std::int64_t widest);
  ~RankLibrary() override;

  Status connect() override;
  void begin() override;
  Status check() override;
  std::int64_t size_bytes() const override { return room_.size_bytes(); }

 private:
  using RankCarrier::RankCarrier;
  void watch();
  Status look();

  device::DeviceArray<float> room_;  // as in DeviceOps::Ranks
  std::atomic<bool> runs_{false};    // a step runs
  std::atomic<std::uint32_t> steps_{0};
  struct Progress {
    std::uint32_t steps = 0, exchanges = 0;
    bool operator==(const Progress&) const = default;
  };
  Progress seen_;
  RankTimeout waited_{0};  // time since then during which a step ran
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace pagoda::device_runner
