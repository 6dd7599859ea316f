#include "cli/serve/model_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace pagoda {
namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

TEST(ModelWatch, EveryChangeIsToldOnce) {
  const std::string folder = ::testing::TempDir() + "/model_watch";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string one = folder + "/one", two = folder + "/two";
  write(one, "abc");
  write(two, "def");
  ModelWatch watch({one, two});
  EXPECT_EQ(watch.check(), "");
  write(two, "longer");
  EXPECT_EQ(watch.check(), two);
  EXPECT_EQ(watch.check(), "");
  // Another file under the same name, of the same size.
  write(folder + "/new", "abc");
  std::filesystem::rename(folder + "/new", one);
  EXPECT_EQ(watch.check(), one);
  EXPECT_EQ(watch.check(), "");
  std::filesystem::remove(one);
  EXPECT_EQ(watch.check(), one);
  EXPECT_EQ(watch.check(), "");
}

TEST(ModelWatch, AnUnknownModelHasNoFiles) { EXPECT_TRUE(ModelWatch::files_of("/nothing/here").empty()); }

}  // namespace
}  // namespace pagoda
