#include "base/log_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"

namespace pagoda {
namespace {

// stderr as a pipe, for as long as it lives.
class PipedStderr {
 public:
  PipedStderr() : saved_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~PipedStderr() {
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    close(ends_[1]);
    if (reader_.joinable()) reader_.join();
    close_reader();
  }
  void close_reader() {
    if (ends_[0] >= 0) close(std::exchange(ends_[0], -1));
  }
  // Somebody reads whatever comes, from here on.
  void read_on() {
    reader_ = std::thread([this] {
      while (!read_some().empty()) {
      }
    });
  }
  std::string read_some() {
    char buffer[65536];
    const ssize_t n = ::read(ends_[0], buffer, sizeof buffer);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "";
  }

 private:
  int saved_;
  int ends_[2] = {-1, -1};
  std::thread reader_;
};

struct QuietAgain {
  QuietAgain() { set_log_level(LogLevel::info); }
  ~QuietAgain() { set_log_level(LogLevel::info); }
};

TEST(LogThread, LinesKeepTheirOrderAndArriveBeforeItEnds) {
  const QuietAgain level;
  PipedStderr piped;
  {
    const LogThread thread;
    for (int i = 0; i < 100; ++i) log_info("test", "line " + std::to_string(i) + ".");
  }
  const std::string text = piped.read_some();
  for (int i = 1; i < 100; ++i)
    EXPECT_LT(text.find("line " + std::to_string(i - 1) + "."), text.find("line " + std::to_string(i) + "."));
}

// The reader lives and does not read.
TEST(LogThread, AReaderThatStandsStillCostsLinesAlone) {
  const QuietAgain level;
  PipedStderr piped;
  const std::int64_t before = log_lines_dropped();
  const auto begin = std::chrono::steady_clock::now();
  {
    const LogThread thread;
    for (int i = 0; i < 20'000; ++i) log_info("test", std::string(100, 'x'));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_GT(log_lines_dropped(), before + 5000);
    // Once there is somebody again, it says what is missing.
    log_info("test", "again");
    std::string text;
    while (text.find("lines were lost") == std::string::npos) text += piped.read_some();
    piped.read_on();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// The reader has gone, as `| head` does; a write would end the program by SIGPIPE.
TEST(LogThread, AReaderThatHasGoneCostsLinesAlone) {
  const QuietAgain level;
  PipedStderr piped;
  piped.close_reader();
  const std::int64_t before = log_lines_dropped();
  {
    const LogThread thread;
    log_info("test", "nobody reads this");
  }
  EXPECT_EQ(log_lines_dropped(), before + 1);
}

}  // namespace
}  // namespace pagoda
