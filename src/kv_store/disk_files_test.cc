// Goal: a folder on disk is ours alone, has one user at a time, follows no link, and holds what is written.
#include "kv_store/disk_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/aligned_buffer.h"
#include "kv_store/inspect_segments.h"
#include "kv_store/store_test_support.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

class DiskFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path().string() + "/pagoda-kv-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    scratch_ = name;
    path_ = name + "/deep/kv";
  }
  void TearDown() override { fs::remove_all(scratch_); }

  std::unique_ptr<DiskFiles> open() {
    auto files = DiskFiles::open(path_, DiskFiles::Lock::taken);
    EXPECT_TRUE(files) << files.error().message();
    return *std::move(files);
  }
  static unsigned mode(const std::string& path) {
    struct stat info{};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  std::string scratch_, path_;
};

TEST_F(DiskFilesTest, FolderAndFilesAreOursAlone) {
  const mode_t before = ::umask(0);
  const auto files = open();
  EXPECT_TRUE(files->create("a"));
  ::umask(before);
  EXPECT_EQ(mode(path_), 0700);
  EXPECT_EQ(mode(path_ + "/a"), 0600);
  EXPECT_EQ(mode(path_ + "/lock"), 0600);
}

TEST_F(DiskFilesTest, AFolderThatOthersMayUseIsRefused) {
  open().reset();
  for (const unsigned wide : {0750u, 0705u, 0711u}) {
    ASSERT_EQ(::chmod(path_.c_str(), wide), 0);
    EXPECT_EQ(DiskFiles::open(path_, DiskFiles::Lock::taken).error().code(), StatusCode::invalid_argument);
    EXPECT_EQ(DiskFiles::open(path_, DiskFiles::Lock::none).error().code(), StatusCode::invalid_argument);
  }
}

TEST_F(DiskFilesTest, NoLinkIsFollowed) {
  open().reset();
  const std::string link = scratch_ + "/link";
  fs::create_directory_symlink(path_, link);
  EXPECT_EQ(DiskFiles::open(link, DiskFiles::Lock::taken).error().code(), StatusCode::invalid_argument);
  const std::string target = scratch_ + "/target";
  std::ofstream(target) << "not ours";
  ASSERT_EQ(::chmod(target.c_str(), 0600), 0);
  fs::create_symlink(target, path_ + "/a");
  const auto files = open();
  EXPECT_FALSE(files->open("a", FileLayer::Access::write));
  EXPECT_FALSE(files->create("a"));
  EXPECT_EQ(files->list()->size(), 1) << "the lock alone";
  fs::remove(path_ + "/lock");
  fs::create_symlink(target, path_ + "/lock");
  EXPECT_FALSE(DiskFiles::open(path_, DiskFiles::Lock::taken));
}

TEST_F(DiskFilesTest, FilesThatOthersMayUseAreNotListed) {
  const auto files = open();
  ASSERT_TRUE(files->create("a"));
  ASSERT_EQ(::chmod((path_ + "/a").c_str(), 0644), 0);
  EXPECT_FALSE(files->open("a", FileLayer::Access::read));
  EXPECT_EQ(files->list()->size(), 1);
}

TEST_F(DiskFilesTest, HasOneUserAtATime) {
  auto first = open();
  const auto second = DiskFiles::open(path_, DiskFiles::Lock::taken);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::unavailable);
  EXPECT_TRUE(DiskFiles::open(path_, DiskFiles::Lock::none));
  first.reset();
  open();
}

TEST_F(DiskFilesTest, BytesComeBackAlignedOrNot) {
  const auto files = open();
  auto file = *files->create("a");
  AlignedBuffer out(3 * 4096), in(3 * 4096);
  for (std::size_t i = 0; i < out.bytes().size(); ++i) out.bytes()[i] = static_cast<std::byte>(i * 31 >> 3);
  ASSERT_TRUE(file->write(0, out.bytes()).ok());
  ASSERT_TRUE(file->write(4096 * 3, out.bytes().first(100)).ok());
  ASSERT_TRUE(file->sync().ok());
  for (const auto& [offset, bytes] : {std::pair{0u, 3 * 4096u}, {4096u, 5000u}, {1u, 4096u}, {4095u, 2u}}) {
    const auto got = file->read(offset, in.bytes().first(bytes));
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, bytes);
    EXPECT_TRUE(std::ranges::equal(in.bytes().first(bytes), out.bytes().subspan(offset, bytes)));
  }
  EXPECT_EQ(*file->read(3 * 4096 + 60, in.bytes()), 40) << "short at the end";
  EXPECT_EQ(*file->read(1 << 20, in.bytes()), 0);
  ASSERT_TRUE(file->zero(4096, 4096).ok());
  ASSERT_TRUE(file->sync().ok());
  EXPECT_EQ(*file->read(4095, in.bytes().first(3)), 3);
  EXPECT_EQ(in.bytes()[0], out.bytes()[4095]);
  EXPECT_EQ(in.bytes()[1], std::byte{0});
  EXPECT_TRUE(files->remove("a").ok());
  EXPECT_EQ(files->remove("a").code(), StatusCode::not_found);
  EXPECT_TRUE(files->sync_folder().ok());
}

TEST_F(DiskFilesTest, AStoreOnItIsFoundAgain) {
  const SteadyClock clock;
  const testing::TestRow row(1, 0, 100'000), other(2, 1, 4096);
  // Several files, read at the same time.
  const SegmentStoreConfig config{.max_bytes = 1 << 24, .segment_bytes = 1 << 17, .scan_threads = 4};
  {
    auto kept = *SegmentStore::open(open(), config, clock);
    EXPECT_EQ(testing::store(*kept, {row, other}), std::vector(2, KvStored::stored));
    for (std::uint64_t i = 10; i < 15; ++i)
      EXPECT_EQ(testing::store(*kept, {testing::TestRow(i, 0, 50'000)}), std::vector(1, KvStored::stored));
    EXPECT_EQ(*kept->erase(testing::rows_of(1)), 1);
  }
  const auto kept = *SegmentStore::open(open(), config, clock);
  EXPECT_EQ(testing::fetch(*kept, row), KvFetched::hit);
  EXPECT_EQ(testing::fetch(*kept, other), KvFetched::miss);
  for (std::uint64_t i = 10; i < 15; ++i)
    EXPECT_EQ(testing::fetch(*kept, testing::TestRow(i, 0, 50'000)), KvFetched::hit);
  EXPECT_GT(kept->stats().segments, 2);
  const auto contents =
      inspect_segments(**DiskFiles::open(path_, DiskFiles::Lock::none), InspectDepth::every_byte);
  ASSERT_TRUE(contents && contents->models.size() == 1);
  EXPECT_EQ(contents->models.front().rows, 6);
  EXPECT_EQ(contents->models.front().label, "model");
  EXPECT_EQ(contents->models.front().damaged_rows, 0);
  const int fd = ::open((path_ + "/0000000000000001.kv").c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(fd, "x", 1, 50'000), 1);
  ::close(fd);
  const auto damaged =
      inspect_segments(**DiskFiles::open(path_, DiskFiles::Lock::none), InspectDepth::every_byte);
  EXPECT_EQ(damaged->models.front().damaged_rows, 1);
}

}  // namespace
}  // namespace pagoda
