#pragma once
// RankLibrary: parts of rows by the device's own library (device/collectives.h; NCCL). Its kernels wait for
// other ranks without an end, so that a thread looks after them: where no exchange has ended for as long as
// one may take, the library reports an error, or a rank has given up, the thread leaves the group. The step
// then ends, and with it the engine.
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

  device::DeviceArray<float> room_;  // as DeviceOps::Ranks has it
  std::atomic<bool> runs_{false};    // a step does
  std::atomic<std::uint32_t> steps_{0};
  struct Progress {
    std::uint32_t steps = 0, exchanges = 0;
    bool operator==(const Progress&) const = default;
  };
  Progress seen_;
  RankTimeout waited_{0};  // since then, a step running
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace pagoda::device_runner
