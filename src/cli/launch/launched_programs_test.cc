// Each program gets the server's address and model, whatever a name contains.
#include "cli/launch/launched_programs.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pagoda {
namespace {

std::string everything(const Launch& launch) {
  std::string out;
  for (const auto& [name, value] : launch.variables) out += name + "=" + value + "\n";
  for (const auto& list : {launch.arguments, launch.last_arguments})
    for (const std::string& argument : list) out += argument + "\n";
  for (const auto& [path, text] : launch.files) out += path + ":" + text + "\n";
  return out;
}

bool sets(const Launch& launch, const std::string& name, const std::string& value) {
  return std::ranges::find(launch.variables, std::pair(name, value)) != launch.variables.end();
}

TEST(LaunchedPrograms, EachIsToldTheServerAndTheModel) {
  for (const LaunchedProgram& program : launched_programs()) {
    const std::string told = everything(program.tell(
        {.url = "http://box:9", .model = "org/m", .max_model_len = 4096, .key = "s3cret", .folder = "/f"}));
    EXPECT_NE(told.find("http://box:9"), std::string::npos) << program.name;
    EXPECT_NE(told.find("org/m"), std::string::npos) << program.name;
    EXPECT_NE(told.find("s3cret"), std::string::npos) << program.name;
    EXPECT_EQ(find_launched_program(program.name), &program) << "a name stands once";
  }
  EXPECT_EQ(find_launched_program("nothing"), nullptr);
}

TEST(LaunchedPrograms, OnesThatWantAKeyGetAWordForIt) {
  const LaunchTarget target{.url = "http://box:9", .model = "m"};
  EXPECT_TRUE(sets(find_launched_program("claude")->tell(target), "ANTHROPIC_AUTH_TOKEN", "none"));
  EXPECT_TRUE(sets(find_launched_program("gptme")->tell(target), "OPENAI_API_KEY", "none"));
  EXPECT_EQ(everything(find_launched_program("codex")->tell(target)).find("env_key"), std::string::npos);
}

TEST(LaunchedPrograms, ClaudeUsesTheModelForEverythingAndKnowsItsContext) {
  const Launch launch =
      find_launched_program("claude")->tell({.url = "http://box:9", .model = "m", .max_model_len = 4096});
  EXPECT_TRUE(sets(launch, "ANTHROPIC_BASE_URL", "http://box:9"));
  EXPECT_TRUE(sets(launch, "ANTHROPIC_DEFAULT_HAIKU_MODEL", "m"));
  EXPECT_TRUE(sets(launch, "CLAUDE_CODE_MAX_CONTEXT_TOKENS", "4096"));
  EXPECT_TRUE(sets(launch, "CLAUDE_CODE_ATTRIBUTION_HEADER", "0"));
}

TEST(LaunchedPrograms, ANameCannotLeaveItsQuotes) {
  const LaunchTarget target{.url = "http://box:9", .model = "a\"b\nc: d"};
  for (const char* name : {"vibe", "hermes", "llm", "codex", "opencode"}) {
    const std::string told = everything(find_launched_program(name)->tell(target));
    EXPECT_NE(told.find("a\\\"b\\nc: d"), std::string::npos) << told;
    if (std::string_view(name) != "llm") EXPECT_EQ(told.find("b\nc"), std::string::npos) << told;
  }
}

}  // namespace
}  // namespace pagoda
