#pragma once
// LiveOut: a run as the file that the page opens: hello, snapshot, then a delta a step, a line each
// (page/live_frames.h). Bounded: beyond kMaxFrames the rest of the run is left out, and said to be.
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
  explicit LiveOut(std::string path);  // empty: nothing is written

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
