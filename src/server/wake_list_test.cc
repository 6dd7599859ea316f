#include "server/wake_list.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace pagoda {
namespace {

TEST(WakeList, RingsOnceUntilTaken) {
  int rings = 0;
  WakeList<int> list([&] { ++rings; });
  const auto one = std::make_shared<int>(1), two = std::make_shared<int>(2);
  list.add(one);
  list.add(two);
  EXPECT_EQ(rings, 1);
  const auto taken = list.take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].lock(), one);
  EXPECT_EQ(taken[1].lock(), two);
  EXPECT_TRUE(list.take().empty());
  list.add(one);
  EXPECT_EQ(rings, 2);
}

// Whoever adds is taken after the ring that it caused or that came before: nobody is left in the list.
TEST(WakeList, NothingIsLostBetweenThreads) {
  constexpr int kAdds = 20'000;
  std::atomic<int> rings{0};
  std::atomic<bool> added{false};
  WakeList<int> list([&] { rings.fetch_add(1); });
  const auto item = std::make_shared<int>(0);
  std::thread adder([&] {
    for (int i = 0; i < kAdds; ++i) list.add(item);
    added.store(true);
  });
  int taken = 0, heard = 0;
  for (bool last = false; !last;) {
    last = added.load();
    if (rings.load() == heard) continue;
    ++heard;  // one take for each ring, as the I/O loop does
    taken += static_cast<int>(list.take().size());
  }
  adder.join();
  for (; heard < rings.load(); ++heard) taken += static_cast<int>(list.take().size());
  EXPECT_EQ(taken, kAdds);
}

}  // namespace
}  // namespace pagoda
