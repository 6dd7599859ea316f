#include "cli/commands/inspect_command.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/assembly/hub_paths.h"

namespace pagoda {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome inspect(const std::string& path, bool json) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_inspect({.path = path, .json = json});
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(Inspect, OneJsonObjectOnStdout) {
  const Outcome outcome = inspect(PAGODA_SOURCE_DIR "/tests/fixtures/models/all_types.gguf", true);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with("{\"path\":")) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("}\n"));
  EXPECT_EQ(outcome.err, "");
}

TEST(Inspect, OneLineOnStderr) {
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "pagoda_inspect_test.gguf";
  std::ofstream(file) << "GGUF\n";
  const Outcome outcome = inspect(file.string(), true);
  std::filesystem::remove(file);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("pagoda: ")) << outcome.err;
}

TEST(HubPaths, TheFirstVariableSetIsTheOne) {
  const char* const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};
  std::vector<std::pair<const char*, std::optional<std::string>>> saved;
  for (const char* name : names) {
    const char* value = std::getenv(name);
    saved.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
    ::unsetenv(name);
  }
  const auto first = [] { return hub_paths_from_environment().cache_dirs.front(); };
  ::setenv("HOME", "/h", 1);
  EXPECT_EQ(first(), "/h/.cache/huggingface/hub");
  ::setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(first(), "/x/huggingface/hub");
  ::setenv("HF_HOME", "~/f", 1);
  EXPECT_EQ(first(), "/h/f/hub");
  ::setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  EXPECT_EQ(first(), "/old");
  ::setenv("HF_HUB_CACHE", "/new", 1);
  EXPECT_EQ(first(), "/new");
  for (const auto& [name, value] : saved) {
    if (value) {
      ::setenv(name, value->c_str(), 1);
    } else {
      ::unsetenv(name);
    }
  }
}

}  // namespace
}  // namespace pagoda
