#pragma once
// PoisonRecord: the requests that were being computed when an engine died, so that the next engine refuses
// them. A small mapped file that outlives the process; holds hashes of prompts, no text; checked when read.
//     begin(requests of the step) -> the step runs -> end()
//                                        |  the runner fails: condemn()
//                                        `  a fatal signal: marked as crashed; the next open() condemns
// The engines of a process share one record, which covers the steps that each may have in flight (`step`:
// number of a step). SIGKILL condemns nothing. A request that was alone in its step is refused for a day, one
// of several for ten minutes; at most kMaxCondemned are kept. Errors: unavailable: another process uses the
// file; internal: it cannot be created. Threads: refuses() and open(): any; all others: the thread of the
// named engine.
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/status.h"
#include "request/request.h"

namespace pagoda {

using RequestDigest = std::array<std::uint64_t, 2>;
RequestDigest digest_of(const Request& request);  // identifies its prompt, kind and adapter

class PoisonRecord {
 public:
  using Now = std::function<std::int64_t()>;
  static constexpr std::int32_t kMaxEngines = 64;
  static Result<std::unique_ptr<PoisonRecord>> open(const std::string& path, Now now);
  ~PoisonRecord();
  PoisonRecord(const PoisonRecord&) = delete;

  static constexpr std::int32_t kMaxInFlight = 2;
  void begin(std::span<const RequestDigest> in_step, std::int32_t engine = 0, std::int64_t step = 0);
  void end(std::int32_t engine = 0, std::int64_t step = 0);
  void condemn(std::int32_t engine = 0, std::int64_t step = 0);  // condemns the requests of the step

  bool refuses(const Request& request) const;
  std::int64_t num_condemned() const { return num_condemned_.load(); }

  // From now on a fatal signal marks this record, which must live until the process ends.
  void mark_fatal_signals();

 private:
  struct File;
  PoisonRecord() = default;
  void condemn_all(std::span<const RequestDigest> digests);

  int descriptor_ = -1;
  File* file_ = nullptr;  // mapped, shared
  Now now_;
  mutable std::mutex mutex_;  // guards the condemned entries
  std::atomic<std::int64_t> num_condemned_{0};
};

}  // namespace pagoda
