#include "cli/flags/help.h"

#include <gtest/gtest.h>

#include <sstream>

namespace pagoda {
namespace {

TEST(Help, WrapsBetweenWordsAndKeepsTheColumn) {
  EXPECT_EQ(wrapped("one two three", 2, 10), "one two\n  three");
  EXPECT_EQ(wrapped("fits", 2, 10), "fits");
  EXPECT_EQ(wrapped("a-word-longer-than-the-line x", 2, 10), "a-word-longer-than-the-line\n  x");
  EXPECT_EQ(wrapped("", 2, 10), "");
}

TEST(Help, NoLineIsWiderThanTheTerminalWhereWordsAllow) {
  Flag flag{.name = "port",
            .value = {.type = "N", .default_text = "8000"},
            .help = "port to listen on; 0: any free port, which is printed when the server starts to listen"};
  const Command command{.name = "serve", .summary = "start a server", .flags = {flag}};
  for (const std::size_t width : {50, 80, 120}) {
    const std::string text = help_text("pagoda serve", command, width);
    EXPECT_NE(text.find("Start a server.\n"), std::string::npos) << text;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width) << line;
  }
}

TEST(Help, TheWidthIsThatOfColumnsElse80) {
  EXPECT_EQ(terminal_width("120", -1), 120u);
  EXPECT_EQ(terminal_width("7", -1), 50u);
  EXPECT_EQ(terminal_width(nullptr, -1), 80u);
  EXPECT_EQ(terminal_width("wide", -1), 80u);
}

}  // namespace
}  // namespace pagoda
