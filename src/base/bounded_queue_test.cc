#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace pagoda {
namespace {

TEST(BoundedQueue, GivesBackInOrder) {
  BoundedQueue<int> queue(3);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(queue.drain(), (std::vector<int>{1, 2}));
  EXPECT_EQ(queue.drain(), std::vector<int>());
}

TEST(BoundedQueue, RefusesWhenFullAndLeavesTheItem) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.try_push(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(*second, 2);
  // A control message gets in all the same: who is queued must be able to leave.
  EXPECT_TRUE(queue.push_control(std::move(second)));
  EXPECT_EQ(queue.size(), 2u);
}

TEST(BoundedQueue, AfterCloseOnlyWhatIsInComesOut) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  queue.close();
  EXPECT_TRUE(queue.closed());
  EXPECT_FALSE(queue.try_push(2));
  EXPECT_FALSE(queue.push_control(3));
  EXPECT_TRUE(queue.wait());
  EXPECT_EQ(queue.drain(), std::vector<int>{1});
  EXPECT_FALSE(queue.wait());
}

TEST(BoundedQueue, ManyProducersLoseNothing) {
  constexpr int kProducers = 3, kItems = 2'000;
  BoundedQueue<int> queue(16);
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&queue, p] {
      for (int i = 0; i < kItems; ++i) {
        int item = p * kItems + i;
        while (!queue.try_push(std::move(item))) std::this_thread::yield();
      }
    });
  }
  std::vector<int> last(kProducers, -1);
  int received = 0;
  while (received < kProducers * kItems && queue.wait()) {
    for (const int item : queue.drain()) {
      // Each producer's items arrive in its own order.
      EXPECT_GT(item % kItems, last[static_cast<std::size_t>(item / kItems)]);
      last[static_cast<std::size_t>(item / kItems)] = item % kItems;
      ++received;
    }
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(received, kProducers * kItems);
  EXPECT_EQ(queue.size(), 0u);
}

}  // namespace
}  // namespace pagoda
