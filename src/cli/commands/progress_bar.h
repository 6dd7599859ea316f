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
  std::chrono::steady_clock::time_point start_, last_draw_;
  std::int64_t last_tenth_ = 0;
  bool drawn_ = false;
};

}  // namespace pagoda
