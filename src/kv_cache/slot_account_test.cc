#include "kv_cache/slot_account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"

namespace pagoda {
namespace {

// The account as a list of holders, added up anew each time.
struct NaiveAccount {
  struct Row {
    std::int32_t num_pages = 0;
    std::vector<RowFill> holders;
  };
  std::map<std::int32_t, Row> rows;

  SlotAccount::Total total() const {
    SlotAccount::Total out;
    for (const auto& [name, row] : rows) {
      RowFill most;
      for (const RowFill& fill : row.holders) {
        most.computed = std::max(most.computed, fill.computed);
        most.known = std::max(most.known, fill.known);
      }
      out.computed += std::int64_t{row.num_pages} * most.computed;
      out.known += std::int64_t{row.num_pages} * most.known;
      out.held += static_cast<std::int64_t>(row.num_pages) * std::ssize(row.holders);
    }
    return out;
  }
  SlotAccount::Holders walk() const {
    return [this](BlockId name, const std::function<void(RowFill)>& holder) {
      for (const RowFill& fill : rows.at(index(name)).holders) holder(fill);
    };
  }
};

TEST(SlotAccount, ASharedRowCountsOnceAsItsFullestHolderHasIt) {
  SlotAccount account;
  NaiveAccount naive;
  account.hold(BlockId{3}, 2, {.computed = 4, .known = 7});
  account.hold(BlockId{3}, 2, {.computed = 9, .known = 9});
  EXPECT_EQ(account.total(naive.walk()), (SlotAccount::Total{.computed = 18, .known = 18, .held = 4}));
  account.leave(BlockId{3}, {.computed = 9, .known = 9});
  naive.rows[3] = {.num_pages = 2, .holders = {{.computed = 4, .known = 7}}};
  EXPECT_EQ(account.total(naive.walk()), (SlotAccount::Total{.computed = 8, .known = 14, .held = 2}));
  account.leave(BlockId{3}, {.computed = 4, .known = 7});
  EXPECT_EQ(account.total(naive.walk()), SlotAccount::Total{});
}

TEST(SlotAccount, AnyOrderOfChangesAddsUp) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SlotAccount account;
    NaiveAccount naive;
    for (std::uint64_t step = 0; step < 300; ++step) {
      const auto draw = [&](std::uint64_t what, std::uint64_t below) {
        return static_cast<std::int32_t>(random_bits(seed, what, step) % below);
      };
      const std::int32_t name = draw(0, 6), computed = draw(1, 17);
      const RowFill fill{.computed = computed, .known = std::max(computed, draw(2, 17))};
      NaiveAccount::Row& row = naive.rows[name];
      const auto which = static_cast<std::size_t>(draw(3, 1 + row.holders.size()));
      if (which == row.holders.size()) {
        if (row.holders.empty()) row.num_pages = 1 + draw(4, 3);
        row.holders.push_back(fill);
        account.hold(BlockId{name}, row.num_pages, fill);
      } else if (draw(5, 2) == 0) {
        account.change(BlockId{name}, row.holders[which], fill);
        row.holders[which] = fill;
      } else {
        account.leave(BlockId{name}, row.holders[which]);
        row.holders.erase(row.holders.begin() + static_cast<std::ptrdiff_t>(which));
      }
      if (draw(6, 4) == 0) {
        ASSERT_EQ(account.total(naive.walk()), naive.total()) << "seed " << seed << ", step " << step;
      }
    }
    ASSERT_EQ(account.total(naive.walk()), naive.total());
  }
}

}  // namespace
}  // namespace pagoda
