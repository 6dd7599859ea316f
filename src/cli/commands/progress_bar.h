#pragma once
// ProgressBar: a tqdm-like line on stderr during long operations. On a terminal it is redrawn at most ten
// times a second; elsewhere it prints a line for each tenth. Can be silenced.
// Threads: one.
#include <chrono>
#include <cstdint>
#include <string>

namespace pagoda {

class ProgressBar {
 public:
  // `unit`: "bytes" are displayed as MiB. `total` 0: unknown; outside of a terminal it then prints a line
  // each time `done` doubles.
  ProgressBar(std::string label, std::int64_t total, std::string unit);
  ~ProgressBar();  // ends the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `done`: progress so far; `note` is shown after the bar ("512 tok/s").
  void update(std::int64_t done, const std::string& note = {});

 private:
  void draw(std::int64_t done, const std::string& note);

  std::string label_, unit_;
  std::int64_t total_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_, last_draw_, begun_;
  std::int64_t last_tenth_ = 0, next_line_ = 1;
  std::int64_t begun_at_ = -1;  // progress at the first update
  bool drawn_ = false;
};

}  // namespace pagoda
