#pragma once
// WeightWriter: writes the packed weights of a model that is already in use into the weight cache, on a
// thread of its own and of the lowest priority: nobody waits for the disk before the first answer.
// WeightWriting is what the writers of a process share with whoever knows when to write and how it goes.
//
//     waiting --begin(), or kGrace after loading--> writing --> written | failed
//        `----------- the weights go --------------> cancelled, without a file
//
// Invariants: the file gets its name when it is whole and on the disk (loader/weight_cache.h); a few MiB at a
// time are on their way to the disk, at kBytesPerSecond; another process that makes the same file is left
// alone; why there is no file is told once. Threads: WeightWriting's calls by any.
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

// One piece of the file that is to be written; its bytes are those in use.
struct WeightPiece {
  std::string recipe, description;
  std::span<const std::byte> bytes;
};

class WeightWriting {
 public:
  static constexpr std::chrono::seconds kGrace{10};
  static constexpr std::int64_t kBytesPerSecond = std::int64_t{256} << 20;

  // An answer was given: the time has come.
  void begin();
  struct State {
    std::int64_t written_bytes = 0, bytes = 0;  // so far, of all that is to be written
    std::int64_t failures = 0;
  };
  // Begins, writes as fast as the disk takes it, and waits for the end. The first failure; cancelled: `stop`,
  // which is asked again and again, said so, and writers end without a file; or weights were released.
  Status finish(const std::function<bool(const State&)>& stop);
  // `on_change` is called at once, and from then on by writers, with one call at a time.
  void watch(std::function<void(const State&)> on_change);

 private:
  friend class WeightWriter;
  void changed();  // with the mutex held

  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false, hurried_ = false, given_up_ = false;
  int active_ = 0;  // writers that have not ended
  State state_;
  std::function<void(const State&)> on_change_;
  Status failure_;  // the first
};

// Lines about it, for people; called on the writer's thread.
struct WritingReport {
  std::function<void(std::string_view)> say, warn;
};

class WeightWriter {
 public:
  // `pieces` stay readable until the destructor has returned. The head names the file.
  WeightWriter(std::shared_ptr<WeightWriting> shared, WeightCache cache, PackedFileHead head,
               std::vector<WeightPiece> pieces, WritingReport report);
  ~WeightWriter();  // does not wait for more than what is on its way to the disk
  WeightWriter(const WeightWriter&) = delete;
  WeightWriter& operator=(const WeightWriter&) = delete;

 private:
  void run();
  bool ends() const { return cancelled_ || shared_->given_up_; }  // with the mutex held
  bool wait_for_begin();
  bool may_write(std::int64_t bytes);
  Status write();

  const std::shared_ptr<WeightWriting> shared_;
  const WeightCache cache_;
  const PackedFileHead head_;
  const std::vector<WeightPiece> pieces_;
  const WritingReport report_;
  std::int64_t bytes_ = 0;
  std::int64_t written_ = 0;  // under the shared mutex, as the next
  bool cancelled_ = false;
  std::chrono::steady_clock::time_point next_;  // the earliest time for more
  std::thread thread_;
};

}  // namespace pagoda
