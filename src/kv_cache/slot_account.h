#pragma once
// SlotAccount: how many token slots of the pool hold computed tokens and how many have room for known ones,
// kept up to date as sequences take rows, advance and leave. A row that several sequences hold counts once,
// as full as the fullest of them has it. It knows rows by their first page; tables and the pool are the
// owner's.
//
// Every call costs O(1) but total(), which looks again at the rows whose fullest holder has left, through the
// owner's walk over its tables. Such rows are rare: rows are shared while they are full or not written to.
// Invariant: total() is what a walk over all tables gives. Threads: none; owned by the engine thread.
#include <cstdint>
#include <functional>
#include <vector>

#include "request/ids.h"

namespace pagoda {

// Token slots of one row as one holder has them: `computed` hold K/V, `known` are computed or have room.
struct RowFill {
  std::int32_t computed = 0, known = 0;
  bool operator==(const RowFill&) const = default;
};

class SlotAccount {
 public:
  // Over the pages of all rows.
  struct Total {
    std::int64_t computed = 0, known = 0;
    std::int64_t held = 0;  // pages, once for each holder
    bool operator==(const Total&) const = default;
  };
  // Calls its argument with each holder's fill of a row.
  using Holders = std::function<void(BlockId row, const std::function<void(RowFill)>& holder)>;

  // A row of `num_pages` pages gets one more holder.
  void hold(BlockId row, std::int32_t num_pages, RowFill fill);
  // One of its holders, who had it as full as `from`, has it as full as `to`.
  void change(BlockId row, RowFill from, RowFill to);
  void leave(BlockId row, RowFill fill);

  Total total(const Holders& holders);

 private:
  struct Level {                       // one of the two counts
    std::int32_t most = 0, times = 0;  // so many holders have so much
  };
  struct Row {
    std::int32_t num_pages = 0, num_holders = 0;
    Level computed, known;
    bool stale = false;  // nobody is left who had `most`; not in total_
  };
  Row& at(BlockId row);
  void count(const Row& row, std::int64_t sign);
  void settle(BlockId name, Row& row);  // after a change

  std::vector<Row> rows_;  // by first page
  std::vector<BlockId> stale_;
  Total total_;
};

}  // namespace pagoda
