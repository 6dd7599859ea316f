#include "kv_cache/state_eviction.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

std::vector<int> drain(StateEviction& eviction) {
  std::vector<int> out;
  while (const auto row = eviction.next_victim()) {
    out.push_back(index(*row));
    eviction.remove(*row);
  }
  return out;
}

TEST(StateEviction, WhatANextTurnPassedByGoesFirst) {
  StateEviction eviction;
  for (const int row : {1, 2, 3, 4, 5, 6}) eviction.put(BlockId{row});
  eviction.pair(BlockId{1}, BlockId{2});
  eviction.pair(BlockId{3}, BlockId{4});
  eviction.use(BlockId{2});  // the next turn begins at the end,
  eviction.use(BlockId{3});  // another one before the prompt's end, and again
  eviction.use(BlockId{3});
  eviction.leave(BlockId{2});  // and leaves its own
  eviction.leave(BlockId{3});  // others begin there, too
  eviction.leave(BlockId{99});
  EXPECT_EQ(eviction.size(), 6);
  EXPECT_EQ(drain(eviction), (std::vector<int>{1, 4, 2, 5, 6, 3}));
}

TEST(StateEviction, UsedAgainItIsWantedAgain) {
  StateEviction eviction;
  for (const int row : {1, 2, 3}) eviction.put(BlockId{row});
  eviction.pair(BlockId{1}, BlockId{2});
  eviction.use(BlockId{1});
  eviction.use(BlockId{2});
  EXPECT_EQ(drain(eviction), (std::vector<int>{1, 3, 2}));
  eviction.put(BlockId{1});
  eviction.put(BlockId{2});
  eviction.pair(BlockId{1}, BlockId{2});
  eviction.remove(BlockId{2});
  eviction.put(BlockId{2});  // another state in the same row
  eviction.use(BlockId{1});
  EXPECT_TRUE(eviction.holds(BlockId{2}));
  EXPECT_EQ(drain(eviction), (std::vector<int>{2, 1})) << "not as a partner that was passed by";
}

}  // namespace
}  // namespace pagoda
