// The output of an interrupted batch is resumed.
#include "cli/batch/batch_progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "base/strings.h"

namespace pagoda {
namespace {

class BatchProgressTest : public ::testing::Test {
 protected:
  BatchProgressTest() {
    path_ =
        std::filesystem::temp_directory_path() /
        concat("batch-", ::getpid(), "-", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  ~BatchProgressTest() override { std::filesystem::remove(path_); }
  void put(std::string_view text) const { std::ofstream(path_) << text; }
  std::string get() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  std::filesystem::path path_;
};

constexpr std::string_view kFirst = "{\"id\":\"batch_req_1\",\"custom_id\":\"a\"}\n";

TEST_F(BatchProgressTest, ACutLastLineIsDropped) {
  put(concat(kFirst, "{\"id\":\"batch_req_3\",\"custom_id\":\"c\"}\n{\"id\":\"batch_req_2\",\"cus"));
  {
    Result<BatchProgress> progress = BatchProgress::open(path_);
    ASSERT_TRUE(progress) << progress.error().message();
    EXPECT_TRUE(progress->answered(1) && progress->answered(3));
    EXPECT_FALSE(progress->answered(2));
    EXPECT_TRUE(progress->check(1, "a").ok());
    EXPECT_FALSE(progress->check(1, "other").ok());
    EXPECT_TRUE(progress->write("{\"id\":\"batch_req_2\"}").ok());
  }
  EXPECT_EQ(get(),
            concat(kFirst, "{\"id\":\"batch_req_3\",\"custom_id\":\"c\"}\n{\"id\":\"batch_req_2\"}\n"));
}

TEST_F(BatchProgressTest, WhateverTheKillLeft) {
  const std::string whole = concat(kFirst, "{\"id\":\"batch_req_2\",\"custom_id\":\"b\"}\n");
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    put(whole.substr(0, length));
    const Result<BatchProgress> progress = BatchProgress::open(path_);
    ASSERT_TRUE(progress) << length;
    EXPECT_EQ(progress->num_answered(), length == whole.size() ? 2u : length >= kFirst.size() ? 1u : 0u);
  }
}

TEST_F(BatchProgressTest, AnotherKindOfFileIsLeftAlone) {
  put("notes\nmore");
  EXPECT_FALSE(BatchProgress::open(path_));
  EXPECT_EQ(get(), "notes\nmore");
}

}  // namespace
}  // namespace pagoda
