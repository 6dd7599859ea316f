#include "cli/simulate/live_out.h"

#include <cstdio>

#include "base/strings.h"
#include "cli/exit_code.h"
#include "page/live_frames.h"

namespace pagoda {

LiveOut::LiveOut(std::string path) : path_(std::move(path)) {
  if (wanted()) file_.open(path_, std::ios::binary);
}

void LiveOut::write(std::shared_ptr<const EngineSnapshot> state) {
  if (num_frames_ >= kMaxFrames) return;
  if (last_ == nullptr)
    file_ << live_hello(*state, "file") << '\n' << live_snapshot(*state, 0) << '\n';
  else
    file_ << live_delta(*last_, *state, num_frames_) << '\n';
  ++num_frames_;
  last_ = std::move(state);
}

Status LiveOut::finish() {
  if (!wanted()) return ok_status();
  file_.close();
  if (!file_) return invalid_argument(file_failure("write", path_));
  if (num_frames_ >= kMaxFrames)
    std::fprintf(stderr, "%s holds the first %lld steps of the run\n", path_.c_str(),
                 static_cast<long long>(kMaxFrames));
  return ok_status();
}

}  // namespace pagoda
