#include "base/log.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace pagoda {
namespace {

std::string logged(LogLevel level, void (*log)(std::string_view, std::string_view),
                   std::string_view message) {
  set_log_level(level);
  ::testing::internal::CaptureStderr();
  log("engine", message);
  set_log_level(LogLevel::info);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, HasVllmsForm) {
  const std::string line = logged(LogLevel::info, log_warning, "slow");
  EXPECT_TRUE(std::regex_match(line, std::regex(R"(WARNING \d\d-\d\d \d\d:\d\d:\d\d \[engine\] slow\n)")))
      << line;
}

TEST(Log, KeepsQuietBelowItsLevel) {
  EXPECT_EQ(logged(LogLevel::info, log_debug, "x"), "");
  EXPECT_EQ(logged(LogLevel::error, log_warning, "x"), "");
  EXPECT_EQ(logged(LogLevel::off, log_error, "x"), "");
  EXPECT_NE(logged(LogLevel::debug, log_debug, "x"), "");
}

TEST(Log, AsJsonItIsOneObjectALine) {
  set_log_format(LogFormat::json);
  const std::string line = logged(LogLevel::info, log_warning, "a \"b\" \\ c\nä");
  const std::string bytes = logged(LogLevel::info, log_info, "x\xff");
  set_log_format(LogFormat::text);
  const std::regex form(
      R"re(\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","level":"warning","component":"engine","message":"(.*)"\}\n)re");
  std::smatch match;
  ASSERT_TRUE(std::regex_match(line, match, form)) << line;
  EXPECT_EQ(match[1], "a \\\"b\\\" \\\\ c\\u000aä");
  EXPECT_NE(bytes.find(R"("message":"x\u00ff")"), std::string::npos) << bytes;
}

// A name taken from a file or a request must not forge a line or drive the terminal.
TEST(Log, EscapesControlCharacters) {
  const std::string line = logged(LogLevel::info, log_info, "a\nERROR b\x1b[31m\x7f\tä");
  EXPECT_NE(line.find("a\\x0aERROR b\\x1b[31m\\x7f\\x09ä\n"), std::string::npos) << line;
}

}  // namespace
}  // namespace pagoda
