// Goal: sums and gathers go to NCCL as its documentation has them: against a library that writes down the
// calls and really brings ranks together (fake_nccl.cpp). A missing library, a missing call, an old version
// and every call that fails are an error that names it; a call that waits for a rank that does not come ends
// when it is aborted, with the reason; nothing is left undestroyed. The real library has never been called.
#include "device/cuda/nccl.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda/fake_library.h"

namespace pagoda::device {
namespace {

using std::chrono::milliseconds;

const char* const kFakeNccl[] = {"libnone.so.2", PAGODA_FAKE_NCCL};
constexpr milliseconds kPatience{20'000};

Status join(Nccl& nccl, const GroupName& name, std::int32_t rank, std::int32_t size,
            milliseconds timeout = kPatience) {
  return nccl.join(name, rank, size, timeout, [] {});
}

// Runs body(rank, nccl) on a thread for each rank of a group.
template <class Body>
void in_group(std::int32_t size, const Body& body) {
  auto first = Nccl::open(kFakeNccl);
  ASSERT_TRUE(first);
  const auto name = (*first)->name_group();
  ASSERT_TRUE(name);
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto nccl = Nccl::open(kFakeNccl);
      ASSERT_TRUE(nccl);
      const Status joined = join(**nccl, *name, rank, size);
      ASSERT_TRUE(joined.ok()) << joined.message();
      body(rank, **nccl);
    });
  for (std::thread& thread : threads) thread.join();
}

void* const kRankStream = reinterpret_cast<void*>(77);

TEST(Nccl, ConnectsAGroupWhenItIsMade) {
  unsetenv("NCCL_RUNTIME_CONNECT");
  ASSERT_TRUE(Nccl::open(kFakeNccl));
  EXPECT_STREQ(std::getenv("NCCL_RUNTIME_CONNECT"), "0");
  setenv("NCCL_RUNTIME_CONNECT", "1", 1);
  ASSERT_TRUE(Nccl::open(kFakeNccl));
  EXPECT_STREQ(std::getenv("NCCL_RUNTIME_CONNECT"), "1") << "somebody has set it";
  unsetenv("NCCL_RUNTIME_CONNECT");
}

TEST(Nccl, RanksGetTheSumAndAllParts) {
  FakeLibrary fake(PAGODA_FAKE_NCCL);
  for (const std::int32_t size : {1, 2, 3, 8})
    in_group(size, [size](std::int32_t rank, Nccl& nccl) {
      for (const std::int64_t count : {1, 5, 9000}) {
        std::vector<float> data(static_cast<std::size_t>(count)),
            all(data.size() * static_cast<std::size_t>(size));
        for (std::size_t i = 0; i < data.size(); ++i)
          data[i] = static_cast<float>(100 * rank) + static_cast<float>(i);
        ASSERT_TRUE(nccl.all_gather(kRankStream, data.data(), all.data(), count).ok());
        for (std::int32_t other = 0; other < size; ++other)
          EXPECT_EQ(all[static_cast<std::size_t>((other + 1) * count - 1)],
                    static_cast<float>(100 * other) + static_cast<float>(count - 1));
        ASSERT_TRUE(nccl.all_reduce(kRankStream, data.data(), count).ok());
        EXPECT_EQ(data.back(), static_cast<float>(100 * size * (size - 1) / 2) +
                                   static_cast<float>(size) * static_cast<float>(count - 1));
      }
      EXPECT_TRUE(nccl.error().ok());
    });
  EXPECT_EQ(fake.alive(), 0);
}

TEST(Nccl, CallsHaveTheDocumentedArguments) {
  FakeLibrary fake(PAGODA_FAKE_NCCL);
  in_group(1, [](std::int32_t, Nccl& nccl) {
    float data[6] = {1, 2, 3, 4, 5, 6}, all[6] = {};
    ASSERT_TRUE(nccl.all_reduce(kRankStream, data, 6).ok());
    ASSERT_TRUE(nccl.all_gather(kRankStream, data, all, 6).ok());
  });
  // 7: float32; 0: a sum.
  EXPECT_EQ(fake.log(),
            "GetUniqueId() CommInitRank(1 0) AllReduce(6 7 0 77) AllGather(6 7 77) CommDestroy() ");
}

TEST(Nccl, RanksMayBeProcesses) {
  FakeLibrary fake(PAGODA_FAKE_NCCL);
  auto nccl = Nccl::open(kFakeNccl);
  ASSERT_TRUE(nccl);
  const auto name = (*nccl)->name_group();
  ASSERT_TRUE(name);
  const auto sum_of = [&](std::int32_t rank) -> float {
    float data[2] = {1, static_cast<float>(10 * (rank + 1))};
    const bool ok = join(**nccl, *name, rank, 2).ok() && (*nccl)->all_reduce(nullptr, data, 2).ok();
    return ok ? data[1] : -1;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(sum_of(1) == 30 ? 0 : 1);
  EXPECT_EQ(sum_of(0), 30);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Nccl, AWaitForARankThatDoesNotComeEndsWhenItIsAborted) {
  FakeLibrary fake(PAGODA_FAKE_NCCL);
  in_group(2, [](std::int32_t rank, Nccl& nccl) {
    if (rank == 1) return;  // joins, and brings nothing
    float data[1] = {1};
    std::thread watch([&] {
      std::this_thread::sleep_for(milliseconds(30));
      nccl.abort(unavailable("rank 1 is gone"));
      nccl.abort(unavailable("another reason"));
    });
    const Status status = nccl.all_reduce(nullptr, data, 1);
    watch.join();
    EXPECT_EQ(status.message(), "rank 1 is gone");
    EXPECT_EQ(nccl.all_gather(nullptr, data, data, 1).message(), "rank 1 is gone");
    EXPECT_EQ(nccl.error().message(), "rank 1 is gone");
  });
  EXPECT_NE(fake.log().find("CommAbort()"), std::string::npos);
  EXPECT_EQ(fake.alive(), 0);
}

TEST(Nccl, AGroupThatIsNeverWholeIsNotWaitedForForever) {
  FakeLibrary fake(PAGODA_FAKE_NCCL);
  auto first = Nccl::open(kFakeNccl), second = Nccl::open(kFakeNccl);
  ASSERT_TRUE(first && second);
  const auto name = (*first)->name_group();
  ASSERT_TRUE(name);
  const Status status = join(**first, *name, 0, 2, milliseconds(20));
  EXPECT_EQ(status.code(), StatusCode::deadline_exceeded);
  EXPECT_NE(status.message().find("not all of 2 ranks joined within 20 ms"), std::string::npos)
      << status.message();
  EXPECT_TRUE(join(**second, *name, 1, 2).ok());  // lets the thread that was left behind end
  second->reset();
  while (fake.alive() != 0) std::this_thread::yield();
}

TEST(Nccl, EachCallThatFailsIsNamed) {
  FakeLibrary fake(PAGODA_FAKE_NCCL);
  fake.reset("GetUniqueId", 2);
  auto alone = Nccl::open(kFakeNccl);
  ASSERT_TRUE(alone);
  EXPECT_NE((*alone)->name_group().error().message().find(
                "fake_nccl.so: ncclGetUniqueId: unhandled system error (2): as the test asked"),
            std::string::npos)
      << (*alone)->name_group().error().message();
  fake.reset();
  const auto name = (*alone)->name_group();
  fake.reset("CommInitRank", 5);
  EXPECT_NE(join(**alone, *name, 0, 1).message().find("ncclCommInitRank: invalid usage (5)"),
            std::string::npos);
  fake.reset();
  in_group(1, [&fake](std::int32_t, Nccl& nccl) {
    float data[1] = {1};
    fake.reset("AllReduce", 3);
    EXPECT_NE(nccl.all_reduce(nullptr, data, 1).message().find("ncclAllReduce: internal error (3)"),
              std::string::npos);
    fake.reset("AllGather", 4);
    EXPECT_NE(nccl.all_gather(nullptr, data, data, 1).message().find("ncclAllGather: invalid argument (4)"),
              std::string::npos);
    fake.reset("async", 2);
    EXPECT_NE(nccl.error().message().find("ncclCommGetAsyncError: unhandled system error (2)"),
              std::string::npos);
    fake.reset("async", 7);  // it is still working
    EXPECT_TRUE(nccl.error().ok());
    fake.reset();
  });
  EXPECT_EQ(fake.alive(), 0);
}

TEST(Nccl, AMissingLibraryIsNamed) {
  const char* const none[] = {"libnone.so.2"};
  EXPECT_EQ(Nccl::open(none).error().message(), "there is no libnone.so.2 here");
  EXPECT_EQ(Nccl::describe(none), "there is no libnone.so.2 here");
  const char* const folder[] = {"/proc"};
  EXPECT_TRUE(
      Nccl::open(folder).error().message().starts_with("there is no /proc that can be opened here: /proc: "))
      << Nccl::open(folder).error().message();
  const char* const other[] = {"libm.so.6"};
  EXPECT_EQ(Nccl::open(other).error().message(), "libm.so.6 has no ncclGetVersion");
  FakeLibrary fake(PAGODA_FAKE_NCCL);
  EXPECT_TRUE(Nccl::describe(kFakeNccl).ends_with("fake_nccl.so, version 2.27.3"))
      << Nccl::describe(kFakeNccl);
  fake.reset("old", 0);
  EXPECT_TRUE(Nccl::open(kFakeNccl).error().message().ends_with(
      "has version 2.12.10: from 2.13.0 on it can be used"));
}

}  // namespace
}  // namespace pagoda::device
