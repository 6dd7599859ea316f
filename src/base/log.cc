#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include "base/log_thread.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

std::atomic<LogLevel> g_level{LogLevel::info};
std::atomic<LogFormat> g_format{LogFormat::text};
constexpr const char* kNames[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
constexpr const char* kJsonNames[] = {"debug", "info", "warning", "error"};

void append_escaped(std::string& line, const char* form, char c) {
  char escaped[8];
  std::snprintf(escaped, sizeof escaped, form, static_cast<unsigned char>(c));
  line.append(escaped);
}

std::string text_line(LogLevel level, std::string_view component, std::string_view message) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::strftime(stamp, sizeof stamp, "%m-%d %H:%M:%S", &local);
  std::string line;
  line.reserve(message.size() + 64);
  line.append(kNames[static_cast<int>(level)]).append(" ").append(stamp);
  line.append(" [").append(component).append("] ");
  for (const char c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      append_escaped(line, "\\x%02x", c);
    else
      line.push_back(c);
  }
  return line.append("\n");
}

std::string json_line(LogLevel level, std::string_view component, std::string_view message) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[64];
  const std::size_t length = std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(stamp + length, sizeof stamp - length, ".%03dZ",
                static_cast<int>(now.time_since_epoch().count() % 1000));
  std::string line;
  line.reserve(message.size() + 128);
  line.append(R"({"time":")")
      .append(stamp)
      .append(R"(","level":")")
      .append(kJsonNames[static_cast<int>(level)]);
  line.append(R"(","component":")").append(component).append(R"(","message":")");
  const bool is_text = is_valid_utf8(message);  // a path may not be valid UTF-8
  for (const char c : message) {
    if (c == '"' || c == '\\')
      line.append(1, '\\').append(1, c);
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f ||
             (!is_text && static_cast<unsigned char>(c) > 0x7f))
      append_escaped(line, "\\u%04x", c);
    else
      line.push_back(c);
  }
  return line.append("\"}\n");
}

void write_line(LogLevel level, std::string_view component, std::string_view message) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  std::string line = log_line(level, component, message);
  if (queue_log_line(line)) return;
  // One write per line keeps lines of different threads apart.
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) count_dropped_log_line();
}

}  // namespace

std::string log_line(LogLevel level, std::string_view component, std::string_view message) {
  return log_format() == LogFormat::json ? json_line(level, component, message)
                                         : text_line(level, component, message);
}

void set_log_format(LogFormat format) { g_format.store(format, std::memory_order_relaxed); }
LogFormat log_format() { return g_format.load(std::memory_order_relaxed); }
void set_log_level(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
void log_debug(std::string_view c, std::string_view m) { write_line(LogLevel::debug, c, m); }
void log_info(std::string_view c, std::string_view m) { write_line(LogLevel::info, c, m); }
void log_warning(std::string_view c, std::string_view m) { write_line(LogLevel::warning, c, m); }
void log_error(std::string_view c, std::string_view m) { write_line(LogLevel::error, c, m); }

}  // namespace pagoda
