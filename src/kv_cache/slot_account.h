#pragma once
// SlotAccount: the number of token slots of the pool that hold computed tokens, and the number with space for
// known tokens, kept up to date as sequences take rows, advance and leave. A row held by several sequences
// counts once, at the level of its fullest holder. Rows are known by their first page; the tables and the
// pool belong to the owner. Every call takes O(1), except total(), which recounts the rows whose fullest
// holder has left, through the owner's walk over its tables. Such rows are rare: shared rows are full or not
// written to. Invariant: total() equals the result of a walk over all tables. Threads: none; owned by the
// engine thread.
#include <cstdint>
#include <functional>
#include <vector>

#include "request/ids.h"

namespace pagoda {

// Token slots of one row, as seen by one holder: `computed` slots hold K/V, `known` slots are computed or
// have space.
struct RowFill {
  std::int32_t computed = 0, known = 0;
  bool operator==(const RowFill&) const = default;
};

class SlotAccount {
 public:
  // Sums over the pages of all rows.
  struct Total {
    std::int64_t computed = 0, known = 0;
    std::int64_t held = 0;  // pages, counted once per holder
    bool operator==(const Total&) const = default;
  };
  // Calls `holder` with each holder's fill of the row.
  using Holders = std::function<void(BlockId row, const std::function<void(RowFill)>& holder)>;

  // Adds a holder to a row of `num_pages` pages.
  void hold(BlockId row, std::int32_t num_pages, RowFill fill);
  // Changes the fill of one of the row's holders from `from` to `to`.
  void change(BlockId row, RowFill from, RowFill to);
  void leave(BlockId row, RowFill fill);

  Total total(const Holders& holders);

 private:
  struct Level {                       // one of the two counts
    std::int32_t most = 0, times = 0;  // `times` holders have a fill of `most`
  };
  struct Row {
    std::int32_t num_pages = 0, num_holders = 0;
    Level computed, known;
    bool stale = false;  // no remaining holder has `most`; not included in total_
  };
  Row& at(BlockId row);
  void count(const Row& row, std::int64_t sign);
  void settle(BlockId name, Row& row);  // called after a change

  std::vector<Row> rows_;  // by first page
  std::vector<BlockId> stale_;
  Total total_;
};

}  // namespace pagoda
