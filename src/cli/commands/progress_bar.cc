#include "cli/commands/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr int kBarWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label, std::int64_t total, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_draw_(start_) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && drawn_) std::fputc('\n', stderr);
}

void ProgressBar::update(std::int64_t done, const std::string& note) {
  const auto now = std::chrono::steady_clock::now();
  if (begun_at_ < 0) {
    begun_at_ = done;
    begun_ = now;
  }
  if (terminal_) {
    if ((done < total_ || total_ <= 0) && now - last_draw_ < std::chrono::milliseconds(100)) return;
    last_draw_ = now;
    draw(done, note);
    return;
  }
  if (total_ <= 0) {
    if (done < next_line_) return;
    next_line_ = 2 * done;
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
  const auto since = [](std::chrono::steady_clock::time_point from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  const bool is_bytes = unit_ == "bytes";
  const auto amount = [is_bytes](double value) {
    return is_bytes ? fixed(value / (1 << 20), 1) : fixed(value, 0);
  };
  const std::string unit = is_bytes ? "MiB" : unit_;
  std::string line = concat(label_, ": ");
  if (total_ > 0) {
    const int filled = static_cast<int>(std::min(done, total_) * kBarWidth / total_);
    line += concat(done * 100 / total_, "% |", std::string(static_cast<std::size_t>(filled), '#'),
                   std::string(static_cast<std::size_t>(kBarWidth - filled), '.'), "| ",
                   amount(static_cast<double>(done)), "/", amount(static_cast<double>(total_)), " ", unit);
  } else {
    line += concat(amount(static_cast<double>(done)), " ", unit);
  }
  line += concat(" [", fixed(since(start_), 1), " s");
  // The rate since the first update, because a resumed download does not begin at 0.
  const double rate = static_cast<double>(done - begun_at_) / std::max(since(begun_), 1e-3);
  if (rate > 0) {
    if (is_bytes) line += concat(", ", amount(rate), " MiB/s");
    if (total_ > done) line += concat(", ", fixed(static_cast<double>(total_ - done) / rate, 0), " s left");
  }
  line += concat(note.empty() ? "" : ", ", note, "]");
  if (log_format() == LogFormat::json) return log_info("progress", line);
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line.c_str());
  std::fflush(stderr);
}

}  // namespace pagoda
