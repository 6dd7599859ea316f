#include "kv_cache/state_shelf.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

std::vector<int> drain(StateShelf& shelf) {
  std::vector<int> out;
  while (const auto row = shelf.first_to_go()) {
    out.push_back(index(*row));
    shelf.remove(*row);
  }
  return out;
}

TEST(StateShelf, WhatANextTurnPassedByGoesFirst) {
  StateShelf shelf;
  for (const int row : {1, 2, 3, 4, 5, 6}) shelf.put(BlockId{row});
  shelf.pair(BlockId{1}, BlockId{2});
  shelf.pair(BlockId{3}, BlockId{4});
  shelf.use(BlockId{2});  // the next turn begins at the end,
  shelf.use(BlockId{3});  // another one before the prompt's end, and again
  shelf.use(BlockId{3});
  shelf.leave(BlockId{2});  // and leaves its own
  shelf.leave(BlockId{3});  // where others begin, too
  shelf.leave(BlockId{99});
  EXPECT_EQ(shelf.size(), 6);
  EXPECT_EQ(drain(shelf), (std::vector<int>{1, 4, 2, 5, 6, 3}));
}

TEST(StateShelf, UsedAgainItIsWantedAgain) {
  StateShelf shelf;
  for (const int row : {1, 2, 3}) shelf.put(BlockId{row});
  shelf.pair(BlockId{1}, BlockId{2});
  shelf.use(BlockId{1});
  shelf.use(BlockId{2});
  EXPECT_EQ(drain(shelf), (std::vector<int>{1, 3, 2}));
  shelf.put(BlockId{1});
  shelf.put(BlockId{2});
  shelf.pair(BlockId{1}, BlockId{2});
  shelf.remove(BlockId{2});
  shelf.put(BlockId{2});  // another state in the same row
  shelf.use(BlockId{1});
  EXPECT_TRUE(shelf.holds(BlockId{2}));
  EXPECT_EQ(drain(shelf), (std::vector<int>{2, 1})) << "not as a partner that was passed by";
}

}  // namespace
}  // namespace pagoda
