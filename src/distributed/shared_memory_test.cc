// Goal: the collectives give every rank what they promise, over sizes around their pieces' borders and in any
// mixture; a rank that is silent or gives up ends the others' waiting. Method: ranks as threads.
#include "distributed/shared_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace pagoda {
namespace {

constexpr RankTimeout kTimeout{20'000};

// body(communicator) on a thread for each rank.
template <class Body>
void on_ranks(std::int32_t size, const Body& body) {
  auto group = SharedMemoryGroup::create(size);
  ASSERT_TRUE(group.has_value());
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      SharedMemoryCommunicator communicator(*group, rank);
      body(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> values(std::int32_t rank, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 rng(seed * 1000 + static_cast<std::uint64_t>(rank));
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& value : result)
    value = static_cast<float>(static_cast<std::int64_t>(rng() % 2'000'001) - 1'000'000) * 1e-3f;
  return result;
}

void add(const std::vector<float>& from, std::vector<float>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
}

TEST(SharedMemory, SumsAreTheSameBitsOnEveryRank) {
  for (const std::int32_t size : {1, 2, 3, 4}) {
    for (const std::int64_t length : {1, 15, 4096, 65'536, 65'537, 200'000}) {
      std::vector<float> expected = values(0, length, 7);
      for (std::int32_t rank = 1; rank < size; ++rank) add(values(rank, length, 7), expected);
      on_ranks(size, [&](Communicator& c) {
        std::vector<float> data = values(c.rank(), length, 7);
        ASSERT_TRUE(c.all_reduce_sum(data, kTimeout).ok());
        EXPECT_EQ(std::memcmp(data.data(), expected.data(), expected.size() * sizeof(float)), 0)
            << size << " ranks, " << length;
      });
    }
  }
}

TEST(SharedMemory, WhatAllBringIsGatheredOnEveryRank) {
  for (const std::int32_t size : {1, 2, 3, 4}) {
    for (const std::int64_t length : {0, 1, 4096, 65'535, 65'537, 200'000}) {
      // Unequal lengths, one of them 0.
      const auto of = [&](std::int32_t rank) { return values(rank, rank == 2 ? 0 : length + rank, 11); };
      std::vector<float> expected;
      std::vector<std::size_t> sizes;
      for (std::int32_t rank = 0; rank < size; ++rank) {
        const std::vector<float> part = of(rank);
        sizes.push_back(part.size());
        expected.insert(expected.end(), part.begin(), part.end());
      }
      for (const bool in_place : {false, true}) {
        on_ranks(size, [&](Communicator& c) {
          const std::vector<float> mine = of(c.rank());
          std::vector<float> all(expected.size() + 1, -1.0f);
          std::size_t before = 0;
          for (std::int32_t rank = 0; rank < c.rank(); ++rank)
            before += sizes[static_cast<std::size_t>(rank)];
          if (in_place)
            std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(before));
          const std::span<const float> from =
              in_place ? std::span<const float>(all).subspan(before, mine.size()) : mine;
          ASSERT_TRUE(c.all_gather(from, sizes, all.data(), kTimeout).ok());
          EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.begin()))
              << size << " ranks, " << length;
          EXPECT_EQ(all.back(), -1.0f);
        });
      }
    }
  }
}

TEST(SharedMemory, ARandomMixtureOfCallsAgreesWithAPlainModel) {
  for (const std::int32_t size : {2, 4}) {
    on_ranks(size, [&](Communicator& c) {
      std::mt19937_64 rng(5);  // the same on every rank: so are the calls
      for (std::uint64_t step = 0; step < 400; ++step) {
        const auto length = static_cast<std::int64_t>(step % 50 == 0 ? 300'000 : rng() % 3000 + 1);
        switch (rng() % 4) {
          case 0: {
            const std::vector<float> sent = values(0, length, step);
            std::vector<std::byte> bytes;
            if (c.rank() == 0)
              bytes.assign(std::as_bytes(std::span(sent)).begin(), std::as_bytes(std::span(sent)).end());
            ASSERT_TRUE(c.broadcast(bytes, std::size_t{1} << 30, kTimeout).ok());
            ASSERT_EQ(bytes.size(), sent.size() * sizeof(float));
            ASSERT_EQ(std::memcmp(bytes.data(), sent.data(), bytes.size()), 0);
            break;
          }
          case 1: {
            std::vector<float> data = values(c.rank(), length, step), expected = values(0, length, step);
            for (std::int32_t rank = 1; rank < size; ++rank) add(values(rank, length, step), expected);
            ASSERT_TRUE(c.all_reduce_sum(data, kTimeout).ok());
            ASSERT_EQ(data, expected);
            break;
          }
          case 2: {
            std::vector<std::size_t> sizes;
            std::vector<float> expected;
            for (std::int32_t rank = 0; rank < size; ++rank) {
              const std::int64_t count = rank == 2 ? 0 : length + rank;
              const std::vector<float> part = values(rank, count, step);
              sizes.push_back(part.size() * sizeof(float));
              expected.insert(expected.end(), part.begin(), part.end());
            }
            std::vector<float> all(expected.size());
            const std::vector<float> mine = values(c.rank(), c.rank() == 2 ? 0 : length + c.rank(), step);
            ASSERT_TRUE(c.gather(std::as_bytes(std::span(mine)), sizes,
                                 c.rank() == 0 ? reinterpret_cast<std::byte*>(all.data()) : nullptr, kTimeout)
                            .ok());
            if (c.rank() == 0) ASSERT_EQ(all, expected);
            break;
          }
          default:
            ASSERT_TRUE(c.barrier(kTimeout).ok());
        }
      }
    });
  }
}

TEST(SharedMemory, ASilentRankIsNamedAndTheGroupStaysLost) {
  auto group = SharedMemoryGroup::create(2);
  ASSERT_TRUE(group.has_value());
  SharedMemoryCommunicator zero(*group, 0);
  const Status status = zero.barrier(RankTimeout(100));
  EXPECT_EQ(status.code(), StatusCode::deadline_exceeded);
  EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
  EXPECT_EQ(zero.barrier(RankTimeout(100)).code(), StatusCode::deadline_exceeded);
}

TEST(SharedMemory, GivingUpEndsTheWaitingOfOthers) {
  auto group = SharedMemoryGroup::create(3);
  ASSERT_TRUE(group.has_value());
  std::thread waiting([&] {
    SharedMemoryCommunicator one(*group, 1);
    std::vector<std::byte> bytes;
    const Status status = one.broadcast(bytes, 100, kNoTimeout);
    EXPECT_EQ(status.code(), StatusCode::unavailable);
    EXPECT_NE(status.message().find("rank 2 gave up: out of paper"), std::string::npos) << status.message();
  });
  SharedMemoryCommunicator two(*group, 2);
  EXPECT_TRUE(two.aborted().ok());
  two.abort("out of paper");
  two.abort("a later reason does not count");
  EXPECT_EQ(SharedMemoryCommunicator(*group, 0).aborted().message(), "rank 2 gave up: out of paper");
  waiting.join();
}

TEST(SharedMemory, WhatARankBringsBeforeItGivesUpArrives) {
  for (int i = 0; i < 200; ++i) {
    auto group = SharedMemoryGroup::create(2);
    ASSERT_TRUE(group.has_value());
    const std::vector<std::size_t> sizes = {1, 1};
    std::thread other([&] {
      SharedMemoryCommunicator one(*group, 1);
      const std::byte mine{7};
      EXPECT_TRUE(one.gather(std::span(&mine, 1), sizes, nullptr, kNoTimeout).ok());
      one.abort("as it said");
    });
    SharedMemoryCommunicator zero(*group, 0);
    const std::byte mine{5};
    std::byte all[2] = {};
    const Status status = zero.gather(std::span(&mine, 1), sizes, all, kNoTimeout);
    other.join();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(all[1], std::byte{7});
  }
}

TEST(SharedMemory, CheckedPeersEndTheWaiting) {
  auto group = SharedMemoryGroup::create(2);
  SharedMemoryCommunicator zero(*group, 0, [] { return unavailable("rank 1 was eaten"); });
  EXPECT_EQ(zero.barrier(kNoTimeout).message(), "rank 1 was eaten");
}

TEST(SharedMemory, AMessageOverTheLimitIsRefused) {
  on_ranks(2, [](Communicator& c) {
    std::vector<std::byte> bytes(c.rank() == 0 ? 101 : 0);
    const Status status = c.broadcast(bytes, c.rank() == 0 ? 1000 : 100, kTimeout);
    EXPECT_EQ(status.code(), c.rank() == 0 ? StatusCode::ok : StatusCode::corrupt_data);
  });
}

TEST(SharedMemory, SizesOutOfRangeAreRefused) {
  EXPECT_FALSE(SharedMemoryGroup::create(0).has_value());
  EXPECT_FALSE(SharedMemoryGroup::create(SharedMemoryGroup::kMaxRanks + 1).has_value());
}

}  // namespace
}  // namespace pagoda
