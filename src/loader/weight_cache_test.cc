// Goal: the folder gives out whole files of the right key alone, one process makes a file while others wait,
// and the longest unused go when there is no room.
#include "loader/weight_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "base/strings.h"
#include "loader/test_files.h"

namespace pagoda {
namespace {

using testing::as_bytes;
using testing::ScratchFolder;

Status make(const WeightCache& cache, const std::string& key, std::size_t bytes = 10) {
  auto making = cache.begin({.key = key, .source = "/models/" + key}, static_cast<std::int64_t>(bytes));
  if (!making) return making.error();
  PAGODA_RETURN_IF_ERROR(making->writer().add("x", key, as_bytes(std::string(bytes, 'x'))));
  return cache.commit(*std::move(making));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().string());
  return names;
}

void set_last_use(const std::string& path, std::int64_t seconds) {
  const timespec times[2] = {{.tv_sec = seconds, .tv_nsec = 0}, {.tv_sec = seconds, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// Not every lock that fails is another process's: the folder may be read-only.
TEST(WeightCache, SaysWhyItCannotLock) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 1 << 20);
  ASSERT_TRUE(make(cache, "a").ok());
  std::string lock = names_in(cache.folder()).front();
  lock.replace(lock.rfind('.'), std::string::npos, ".lock");
  std::filesystem::create_directory(lock);
  const Status status = make(cache, "a");
  EXPECT_NE(status.message().find(concat("cannot lock '", lock, "': Is a directory")), std::string::npos)
      << status.message();
}

TEST(WeightCache, FindsWhatWasMade) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/deep/weights", 1 << 20);
  EXPECT_EQ(cache.open("a", nullptr).error().code(), StatusCode::not_found);
  ASSERT_TRUE(make(cache, "a").ok());
  ASSERT_TRUE(make(cache, "b").ok());
  const auto file = cache.open("a", nullptr);
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->find("x")->description, "a");
  EXPECT_EQ(cache.open("c", nullptr).error().code(), StatusCode::not_found);
  EXPECT_EQ(names_in(cache.folder()).size(), 2u);  // neither locks nor files in the making
  struct stat info;
  ASSERT_EQ(::stat(cache.folder().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0u);

  const std::vector<CachedFile> files = cache.list();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].source.substr(0, 8), "/models/");
  EXPECT_EQ(cache.clear(), files[0].bytes + files[1].bytes);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_EQ((*file)->find("x")->bytes.size(), 10u);  // a process that has it mapped keeps it
}

TEST(WeightCache, WhatIsNotWholeIsRemoved) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 1 << 20);
  for (const auto& damage : std::vector<std::function<void(std::string&)>>{
           [](std::string& bytes) { bytes.resize(bytes.size() / 2); },
           [](std::string& bytes) { bytes[4099] ^= 1; }, [](std::string& bytes) { bytes.clear(); },
           [](std::string& bytes) { bytes.assign(10000, 'x'); }}) {
    ASSERT_TRUE(make(cache, "a").ok());
    const std::string path = cache.list().front().path;
    std::string bytes = testing::read_binary(path);
    damage(bytes);
    ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(cache.open("a", nullptr).error().code(), StatusCode::not_found);
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  // A file of another key under this one's name.
  ASSERT_TRUE(make(cache, "a").ok());
  const std::string a = cache.list().front().path;
  ASSERT_TRUE(make(cache, "b").ok());
  for (const CachedFile& file : cache.list())
    if (file.path != a) std::filesystem::rename(file.path, a);
  EXPECT_EQ(cache.open("a", nullptr).error().code(), StatusCode::not_found);
}

TEST(WeightCache, AFolderThatOthersMayWriteIsNotUsed) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 1 << 20);
  ASSERT_TRUE(make(cache, "a").ok());
  ASSERT_EQ(::chmod(cache.folder().c_str(), 0777), 0);
  EXPECT_EQ(make(cache, "b").code(), StatusCode::invalid_argument);
}

TEST(WeightCache, TheLongestUnusedGoFirst) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 90'000);
  for (const char* key : {"a", "b", "c"}) ASSERT_TRUE(make(cache, key, 20'000).ok());
  for (const CachedFile& file : cache.list())
    set_last_use(file.path, file.source == "/models/a" ? 1000 : file.source == "/models/b" ? 3000 : 2000);
  EXPECT_TRUE(cache.open("a", nullptr));  // and now it is the one used last
  ASSERT_TRUE(make(cache, "d", 20'000).ok());
  EXPECT_TRUE(cache.open("a", nullptr));
  EXPECT_TRUE(cache.open("b", nullptr));
  EXPECT_FALSE(cache.open("c", nullptr));
  EXPECT_TRUE(cache.open("d", nullptr));
  EXPECT_EQ(make(cache, "e", 90'001).code(), StatusCode::resource_exhausted);
  EXPECT_TRUE(cache.open("a", nullptr));
}

TEST(WeightCache, OneMakesAndOthersAreTold) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 1 << 20);
  {
    auto making = cache.begin({.key = "a", .source = "m"}, 10);
    ASSERT_TRUE(making);
    EXPECT_FALSE(cache.has("a"));
    EXPECT_EQ(make(cache, "a").code(), StatusCode::unavailable);
    EXPECT_TRUE(make(cache, "b").ok());  // which touches nothing of this one's
    ASSERT_TRUE(making->writer().add("x", "", as_bytes("bytes")).ok());
    ASSERT_TRUE(cache.commit(*std::move(making)).ok());
  }
  EXPECT_TRUE(cache.has("a"));
  EXPECT_TRUE(make(cache, "a").ok());
  EXPECT_EQ(names_in(cache.folder()).size(), 2u);
}

// Each thread is a process to the others: locks belong to descriptors. Whoever gets the lock has it alone,
// also while holders remove it.
TEST(WeightCache, ManyAtOnceMakeOneFile) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 1 << 20);
  std::atomic<int> at_it = 0, made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        auto making = cache.begin({.key = "a", .source = "m"}, 10);
        if (!making) {
          EXPECT_EQ(making.error().code(), StatusCode::unavailable) << making.error().message();
          continue;
        }
        EXPECT_EQ(++at_it, 1);
        EXPECT_TRUE(making->writer().add("x", "", as_bytes("bytes")).ok());
        --at_it;
        EXPECT_TRUE(cache.commit(*std::move(making)).ok());
        ++made;
        EXPECT_TRUE(cache.has("a"));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(made, 0);
  EXPECT_EQ(names_in(cache.folder()).size(), 1u);
}

TEST(WeightCache, WhatAKilledProcessLeftOfAnyModelGoes) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 1 << 20);
  ASSERT_TRUE(make(cache, "a").ok());
  const std::string path = cache.list().front().path, stem = path.substr(0, path.size() - 7);
  cache.clear();
  std::ofstream(stem + ".tmp") << "half of it";
  auto making = cache.begin({.key = "c", .source = "m"}, 10);
  ASSERT_TRUE(making);
  EXPECT_FALSE(std::filesystem::exists(stem + ".tmp"));
  ASSERT_TRUE(make(cache, "b").ok());              // but what is being made stays
  EXPECT_EQ(names_in(cache.folder()).size(), 3u);  // b, and c's two
}

TEST(WeightCache, WhatAKilledProcessLeftIsNoHindrance) {
  const ScratchFolder scratch;
  const WeightCache cache(scratch.path() + "/weights", 1 << 20);
  ASSERT_TRUE(make(cache, "a").ok());
  const std::string path = cache.list().front().path, stem = path.substr(0, path.size() - 7);
  cache.clear();
  std::ofstream(stem + ".tmp") << "half of it";
  std::ofstream(stem + ".lock") << "";
  EXPECT_FALSE(cache.open("a", nullptr));
  ASSERT_TRUE(make(cache, "a").ok());
  EXPECT_TRUE(cache.open("a", nullptr));
  EXPECT_EQ(names_in(cache.folder()).size(), 1u);
  std::ofstream(stem + ".tmp") << "half of it";
  std::ofstream(cache.folder() + "/somebody_elses.packed") << "x";
  cache.clear();
  EXPECT_EQ(names_in(cache.folder()), std::vector<std::string>{cache.folder() + "/somebody_elses.packed"});
}

}  // namespace
}  // namespace pagoda
