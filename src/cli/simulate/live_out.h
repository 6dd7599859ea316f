#pragma once
// LiveOut: writes a run as a file for the page: hello, snapshot, then a delta per step, one line each
// (page/live_frames.h). Bounded: after kMaxFrames the rest of the run is omitted, with a notice.
// Errors: finish(): the file could not be written. Threads: none.
#include <fstream>
#include <memory>
#include <string>

#include "base/status.h"
#include "request/engine_snapshot.h"

namespace pagoda {

class LiveOut {
 public:
  static constexpr std::int64_t kMaxFrames = 200'000;
  explicit LiveOut(std::string path);  // empty: do not write

  bool wanted() const { return !path_.empty(); }
  void write(std::shared_ptr<const EngineSnapshot> state);
  Status finish();

 private:
  const std::string path_;
  std::ofstream file_;
  std::shared_ptr<const EngineSnapshot> last_;
  std::int64_t num_frames_ = 0;
};

}  // namespace pagoda
