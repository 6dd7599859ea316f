#pragma once
// WeightWriter: writes the packed weights of a loaded model into the weight cache on a thread of lowest
// priority, so that the first answer does not wait for the disk. WeightWriting is shared by the writers of a
// process and the code that starts and watches them.
//    waiting --begin(), or kGrace after loading--> writing --> written | failed
//       `-------- weights are released --------------> cancelled, without a file
// Invariants: the file gets its name when it is complete and on the disk (loader/weight_cache.h); only a few
// MiB are in flight to the disk, at kBytesPerSecond; a file that another process is making is left alone; the
// reason for a missing file is reported once.
// Threads: WeightWriting's calls by any.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "loader/weight_cache.h"

namespace pagoda {

// One piece of the file; its bytes are the weights in use.
struct WeightPiece {
  std::string recipe, description;
  std::span<const std::byte> bytes;
};

class WeightWriting {
 public:
  static constexpr std::chrono::seconds kGrace{10};
  static constexpr std::int64_t kBytesPerSecond = std::int64_t{256} << 20;

  // Called when an answer has been given: writing may begin.
  void begin();
  struct State {
    std::int64_t written_bytes = 0, bytes = 0;  // written so far, and in total
    std::int64_t failures = 0;
  };
  // Begins, writes at full disk speed, and waits for the end. Returns the first failure; cancelled if `stop`,
  // which is polled, returns true (writers then end without a file), or if weights were released.
  Status finish(const std::function<bool(const State&)>& stop);
  // `on_change` is called immediately and then by writers, one call at a time.
  void watch(std::function<void(const State&)> on_change);

 private:
  friend class WeightWriter;
  void changed();  // with the mutex held

  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false, hurried_ = false, given_up_ = false;
  int active_ = 0;  // writers still running
  State state_;
  std::function<void(const State&)> on_change_;
  Status failure_;  // the first failure
};

// Messages for the user; called on the writer's thread.
struct WritingReport {
  std::function<void(std::string_view)> say, warn;
};

class WeightWriter {
 public:
  // `pieces` must stay readable until the destructor returns. The head names the file.
  WeightWriter(std::shared_ptr<WeightWriting> shared, WeightCache cache, PackedFileHead head,
               std::vector<WeightPiece> pieces, WritingReport report);
  ~WeightWriter();  // waits only for data in flight to the disk
  WeightWriter(const WeightWriter&) = delete;
  WeightWriter& operator=(const WeightWriter&) = delete;

 private:
  void run();
  bool ends() const { return cancelled_ || shared_->given_up_; }  // call with the mutex held
  bool wait_for_begin();
  bool may_write(std::int64_t bytes);
  Status write();

  const std::shared_ptr<WeightWriting> shared_;
  const WeightCache cache_;
  const PackedFileHead head_;
  const std::vector<WeightPiece> pieces_;
  const WritingReport report_;
  std::int64_t bytes_ = 0;
  std::int64_t written_ = 0;  // guarded by the shared mutex, like cancelled_
  bool cancelled_ = false;
  std::chrono::steady_clock::time_point next_;  // the earliest time to write more
  std::thread thread_;
};

}  // namespace pagoda
