#pragma once
// ProgressBar: a tqdm-like line on stderr while something takes long: on a terminal redrawn at most ten
// times a second, elsewhere one line per tenth. Silent when told so.
// Threads: one.
#include <chrono>
#include <cstdint>
#include <string>

namespace pagoda {

class ProgressBar {
 public:
  // `unit`: "bytes" are shown as MiB. `total` 0: not known; elsewhere than on a terminal each doubling of
  // what is done then has a line.
  ProgressBar(std::string label, std::int64_t total, std::string unit);
  ~ProgressBar();  // ends the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done` so far; `note` is shown behind the bar ("512 tok/s").
  void update(std::int64_t done, const std::string& note = {});

 private:
  void draw(std::int64_t done, const std::string& note);

  std::string label_, unit_;
  std::int64_t total_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, last_draw_, begun_;
  std::int64_t last_tenth_ = 0, next_line_ = 1;
  std::int64_t begun_at_ = -1;  // done already at the first update
  bool drawn_ = false;
};

}  // namespace pagoda
