#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include "base/log_thread.h"

namespace pagoda {
namespace {

std::atomic<LogLevel> g_level{LogLevel::info};

void write_line(LogLevel level, const char* name, std::string_view component, std::string_view message) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::strftime(stamp, sizeof stamp, "%m-%d %H:%M:%S", &local);
  std::string line;
  line.reserve(message.size() + 64);
  line.append(name).append(" ").append(stamp).append(" [").append(component).append("] ");
  for (const char c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      line.append(escaped);
    } else {
      line.push_back(c);
    }
  }
  line.push_back('\n');
  if (queue_log_line(std::move(line))) return;
  // One write per line keeps lines of several threads apart.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) count_dropped_log_line();
}

}  // namespace

void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
void log_debug(std::string_view c, std::string_view m) { write_line(LogLevel::debug, "DEBUG", c, m); }
void log_info(std::string_view c, std::string_view m) { write_line(LogLevel::info, "INFO", c, m); }
void log_warning(std::string_view c, std::string_view m) { write_line(LogLevel::warning, "WARNING", c, m); }
void log_error(std::string_view c, std::string_view m) { write_line(LogLevel::error, "ERROR", c, m); }

}  // namespace pagoda
