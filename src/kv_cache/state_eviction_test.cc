#include "kv_cache/state_eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

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

// The same rules over one list, in the order of the last change of each state's standing.
class NaiveEviction {
 public:
  void put(int row) { all_.push_back({.row = row}); }
  void pair(int a, int b) {
    if (!holds(a) || !holds(b)) return;
    find(a)->partner = b;
    find(b)->partner = a;
  }
  void use(int row) {
    if (!holds(row)) return;
    ++find(row)->uses;
    move(row, false);
    const int partner = find(row)->partner;
    if (holds(partner) && find(partner)->partner == row && !find(partner)->superseded) move(partner, true);
  }
  void leave(int row) {
    if (holds(row) && find(row)->uses <= 1 && !find(row)->superseded) move(row, true);
  }
  void remove(int row) {
    std::erase_if(all_, [&](const State& state) { return state.row == row; });
  }
  std::optional<BlockId> next_victim() const {
    for (const bool superseded : {true, false}) {
      const auto it = std::ranges::find(all_, superseded, &State::superseded);
      if (it != all_.end()) return BlockId{it->row};
    }
    return std::nullopt;
  }
  bool holds(int row) const { return std::ranges::find(all_, row, &State::row) != all_.end(); }
  std::size_t size() const { return all_.size(); }

 private:
  struct State {
    int row = 0, uses = 0, partner = -1;
    bool superseded = false;
  };
  std::vector<State>::iterator find(int row) { return std::ranges::find(all_, row, &State::row); }
  void move(int row, bool superseded) {
    State state = *find(row);
    state.superseded = superseded;
    remove(row);
    all_.push_back(state);
  }
  std::vector<State> all_;
};

TEST(StateEvictionProperty, AgreesWithOneList) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 rng(seed);
    StateEviction eviction;
    NaiveEviction naive;
    for (int step = 0; step < 400; ++step) {
      const int row = static_cast<int>(rng() % 9), other = static_cast<int>(rng() % 9);
      switch (rng() % 5) {
        case 0:
          if (naive.holds(row)) break;
          eviction.put(BlockId{row});
          naive.put(row);
          break;
        case 1:
          if (row == other) break;
          eviction.pair(BlockId{row}, BlockId{other});
          naive.pair(row, other);
          break;
        case 2:
          eviction.use(BlockId{row});
          naive.use(row);
          break;
        case 3:
          eviction.leave(BlockId{row});
          naive.leave(row);
          break;
        case 4:
          eviction.remove(BlockId{row});
          naive.remove(row);
          break;
      }
      ASSERT_EQ(eviction.next_victim(), naive.next_victim()) << "seed " << seed << ", step " << step;
      ASSERT_EQ(eviction.holds(BlockId{row}), naive.holds(row));
      ASSERT_EQ(eviction.size(), static_cast<std::int64_t>(naive.size()));
    }
  }
}

}  // namespace
}  // namespace pagoda
