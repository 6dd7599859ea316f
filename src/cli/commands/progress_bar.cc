#include "cli/commands/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label, std::int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(std::max<std::int64_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_draw_(start_) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

void ProgressBar::update(std::int64_t done, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  if (terminal_) {
    if (done < total_ && now - last_draw_ < std::chrono::milliseconds(100)) return;
    last_draw_ = now;
    draw(done, note);
    return;
  }
  const std::int64_t tenth = done * 10 / total_;
  if (tenth == last_tenth_) return;
  last_tenth_ = tenth;
  draw(done, note);
}

void ProgressBar::draw(std::int64_t done, const std::string& note) {
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const int filled = static_cast<int>(std::min(done, total_) * kBarWidth / total_);
  const std::string bar = std::string(static_cast<std::size_t>(filled), '#') +
                          std::string(static_cast<std::size_t>(kBarWidth - filled), '.');
  const std::string line = concat(label_, ": ", done * 100 / total_, "% |", bar, "| ", done, "/", total_, " ",
                                  unit_, " [", fixed(seconds, 1), " s", note.empty() ? "" : ", ", note, "]");
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace pagoda
