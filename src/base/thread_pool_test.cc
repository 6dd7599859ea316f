// Goal: every tile runs exactly once, two running tiles never share a worker index, and a job's data is
// never touched after parallel_for returned. Method: many short jobs of random size, back to back and
// after pauses long enough for the workers to park.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/random.h"

namespace pagoda {
namespace {

void run_jobs(int threads, int jobs, int pause_every) {
  ThreadPool pool(threads);
  ASSERT_EQ(pool.num_threads(), threads);
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(threads));
  for (int job = 0; job < jobs; ++job) {
    const auto tiles = static_cast<std::int64_t>(random_bits(1, 2, static_cast<std::uint64_t>(job)) % 40);
    std::vector<int> counts(static_cast<std::size_t>(tiles), 0);
    std::atomic<int> clashes{0};
    pool.parallel_for(tiles, [&](std::int64_t tile, int worker) {
      if (busy[static_cast<std::size_t>(worker)].fetch_add(1) != 0) ++clashes;
      ++counts[static_cast<std::size_t>(tile)];
      busy[static_cast<std::size_t>(worker)].fetch_sub(1);
    });
    for (const int count : counts) ASSERT_EQ(count, 1);
    ASSERT_EQ(clashes.load(), 0);
    if (pause_every != 0 && job % pause_every == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
}

TEST(ThreadPool, RunsEachTileOnceBackToBack) {
  for (const int threads : {1, 2, 3, 5}) run_jobs(threads, 3000, 0);
}

TEST(ThreadPool, WakesParkedWorkers) {
  for (const int threads : {2, 3}) run_jobs(threads, 400, 2);
}

// Threads that lose their cores are moved about meanwhile.
TEST(ThreadPool, RunsEachTileOnceBesideBusyNeighbours) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> neighbours;
  for (int i = 0; i < 2; ++i) {
    neighbours.emplace_back([&] {
      while (!stop.load()) {
      }
    });
  }
  run_jobs(2, 2000, 0);
  run_jobs(2, 200, 3);
  stop.store(true);
  for (std::thread& neighbour : neighbours) neighbour.join();
}

TEST(ThreadPool, UsesSeveralThreads) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  // Each of the two tiles waits for the other one to start: only two threads can finish this.
  pool.parallel_for(2, [&](std::int64_t, int) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 2);
}

TEST(ThreadPool, EachThreadBeginsWithItsOwnTilesInEveryJob) {
  ThreadPool pool(3);
  for (int job = 0; job < 200; ++job) {
    std::vector<std::int64_t> first(3, -1);
    std::atomic<int> arrived{0};
    pool.parallel_for(9, [&](std::int64_t tile, int worker) {
      if (first[static_cast<std::size_t>(worker)] >= 0) return;
      first[static_cast<std::size_t>(worker)] = tile;
      ++arrived;
      while (arrived.load() < 3) std::this_thread::yield();
    });
    EXPECT_EQ(first, (std::vector<std::int64_t>{0, 1, 2}));
  }
}

TEST(ThreadPool, OthersComputeTheTilesOfOneThatIsHeldUp) {
  ThreadPool pool(2);
  std::atomic<int> finished{0};
  // Tile 1 is the worker's first: it ends when all others have.
  pool.parallel_for(8, [&](std::int64_t tile, int) {
    if (tile == 1) {
      while (finished.load() < 7) std::this_thread::yield();
    }
    ++finished;
  });
  EXPECT_EQ(finished.load(), 8);
}

}  // namespace
}  // namespace pagoda
