// Goal: what was written is what is mapped, and no damage, no foreign file and no bytes that someone made up
// are taken for it. Method: every byte of a small file changed and every length of it tried.
#include "loader/packed_file.h"

#include <sys/stat.h>

#include "loader/test_files.h"

namespace pagoda {
namespace {

using testing::as_bytes;
using testing::ScratchFolder;

std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const std::string kLong((std::size_t{1} << 20) + 5000, 'x');  // more than one chunk

std::string write_one(const std::string& path) {
  auto writer = PackedFileWriter::create(path, {.key = "key\n1", .source = "/a/model"});
  EXPECT_TRUE(writer);
  EXPECT_TRUE(writer->add("first", "what it is", as_bytes("some bytes")).ok());
  EXPECT_TRUE(writer->add("empty", "", {}).ok());
  EXPECT_TRUE(writer->add("long", std::string("\0\1", 2), as_bytes(kLong)).ok());
  EXPECT_TRUE(writer->finish().ok());
  return testing::read_binary(path);
}

TEST(PackedFile, GivesBackWhatWasWritten) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/a.packed";
  write_one(path);
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0400u);
  ThreadPool pool(2);
  for (ThreadPool* const threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
    const auto file = PackedFile::open(path, "key\n1", threads);
    ASSERT_TRUE(file) << file.error().message();
    EXPECT_EQ((*file)->num_pieces(), 3u);
    EXPECT_EQ((*file)->find("other"), nullptr);
    const PackedPiece* const first = (*file)->find("first");
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->description, "what it is");
    EXPECT_EQ(as_text(first->bytes), "some bytes");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first->bytes.data()) % 4096, 0u);
    EXPECT_EQ((*file)->find("empty")->bytes.size(), 0u);
    EXPECT_EQ((*file)->find("long")->description, std::string("\0\1", 2));
    EXPECT_EQ(as_text((*file)->find("long")->bytes), kLong);
  }
  const auto head = PackedFile::read_head(path);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->key, "key\n1");
  EXPECT_EQ(head->source, "/a/model");
}

TEST(PackedFile, IsForItsKeyAlone) {
  const ScratchFolder folder;
  write_one(folder.path() + "/a");
  const auto file = PackedFile::open(folder.path() + "/a", "key\n2", nullptr);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), StatusCode::corrupt_data);
  EXPECT_EQ(PackedFile::open(folder.path() + "/b", "key\n1", nullptr).error().code(), StatusCode::not_found);
}

TEST(PackedFile, NoDamageIsMissed) {
  const ScratchFolder folder;
  const std::string whole = write_one(folder.path() + "/a");
  ASSERT_TRUE(PackedFile::parse(as_bytes(whole), "key\n1", nullptr));
  std::string bytes = whole;
  std::uint64_t index = 0;
  std::memcpy(&index, whole.data() + 16, sizeof index);
  const std::size_t header = 64;
  int harmless = 0;
  for (std::size_t at = 0; at < whole.size(); at += at < header || at >= index ? 1 : 997) {
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    // Between the pieces nothing is said, nor read.
    const bool taken = static_cast<bool>(PackedFile::parse(as_bytes(bytes), "key\n1", nullptr));
    if (taken) ++harmless;
    if (at < header || at >= index) EXPECT_FALSE(taken) << at;
    bytes[at] = whole[at];
  }
  EXPECT_LT(harmless, 20);
  for (const std::size_t at : {std::size_t{4096}, std::size_t{4105}, std::size_t{8192},
                               std::size_t{8192} + (1 << 20), std::size_t{8191} + kLong.size()}) {
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    EXPECT_FALSE(PackedFile::parse(as_bytes(bytes), "key\n1", nullptr)) << at;
    bytes[at] = whole[at];
  }
  for (std::size_t size = 0; size < whole.size(); size += size < 100 ? 1 : 4001)
    EXPECT_FALSE(PackedFile::parse(as_bytes(std::string_view(whole).substr(0, size)), "key\n1", nullptr));
  EXPECT_FALSE(PackedFile::parse(as_bytes(whole + "x"), "key\n1", nullptr));
}

TEST(PackedFile, ForeignFilesAreRefused) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/a";
  write_one(path);
  const auto code = [&](const std::string& name) {
    return PackedFile::open(name, "key\n1", nullptr).error().code();
  };
  ASSERT_EQ(::chmod(path.c_str(), 0660), 0);
  EXPECT_EQ(code(path), StatusCode::invalid_argument);  // others may write it
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  std::filesystem::create_symlink(path, folder.path() + "/link");
  EXPECT_EQ(code(folder.path() + "/link"), StatusCode::invalid_argument);
  std::filesystem::create_directory(folder.path() + "/folder");
  EXPECT_EQ(code(folder.path() + "/folder"), StatusCode::invalid_argument);
  EXPECT_FALSE(PackedFileWriter::create(path, {}));  // never over another file
  EXPECT_TRUE(PackedFile::open(path, "key\n1", nullptr));
}

TEST(PackedFile, WhatIsNotFinishedIsGone) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/a";
  {
    auto writer = PackedFileWriter::create(path, {});
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add("x", "", as_bytes("bytes")).ok());
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_FALSE(PackedFile::open(path, "", nullptr));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PackedFile, AWriterAsksBeforeEachMegabyteAndEndsWhenTold) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/a";
  {
    auto writer = PackedFileWriter::create(path, {});
    ASSERT_TRUE(writer);
    std::vector<std::int64_t> asked;
    const std::string bytes((std::size_t{3} << 20) + 1, 'x');
    ASSERT_TRUE(writer
                    ->add("a", "", as_bytes(bytes),
                          [&](std::int64_t next) {
                            asked.push_back(next);
                            return true;
                          })
                    .ok());
    EXPECT_EQ(asked, (std::vector<std::int64_t>{1 << 20, 1 << 20, 1 << 20, 1}));
    int times = 0;
    const Status ended = writer->add("b", "", as_bytes(bytes), [&](std::int64_t) { return ++times < 3; });
    EXPECT_EQ(ended.code(), StatusCode::cancelled);
    EXPECT_EQ(times, 3);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace pagoda
