#include "cli/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace pagoda {
namespace {

std::string new_path(const std::string& name) {
  return ::testing::TempDir() + name + std::to_string(::getpid());
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OutputFile, IsCheckedWithoutBeingMadeOrChanged) {
  const std::string path = new_path("output_file_checked");
  EXPECT_TRUE(check_output(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(write_output(path, "before").ok());
  EXPECT_TRUE(check_output(path).ok());
  EXPECT_EQ(content(path), "before");
  ASSERT_TRUE(write_output(path, "after").ok());
  EXPECT_EQ(content(path), "after");
  std::filesystem::remove(path);
}

TEST(OutputFile, ThatCannotBeWrittenIsNamed) {
  const std::string path = new_path("no_such_folder") + "/file";
  for (const Status& status : {check_output(path), write_output(path, "")}) {
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_EQ(status.message(), "cannot write " + path + ": No such file or directory");
  }
  EXPECT_EQ(check_output(::testing::TempDir()).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(check_output("").ok() && check_output("-").ok() && write_output("", "x").ok());
}

}  // namespace
}  // namespace pagoda
