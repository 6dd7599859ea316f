#pragma once
// StateShelf: which states are kept for the prefix cache, and which of them goes first when they take more than
// their budget. A state is as large as thousands of tokens' keys and values, so there is a limit of its own to
// them. Names rows of the pool, as BlockPool does; knows nothing of their content.
//
//     put --> last of its chain --pass: a later state of the same text is kept, too--> inner
//
// Inner ones go first, each kind the one that was used longest ago. Threads: none; owned by the manager.
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "request/ids.h"

namespace pagoda {

class StateShelf {
 public:
  void put(BlockId row);  // not there yet
  void use(BlockId row);  // as if it had been put just now; no effect on one that is not there
  void pass(BlockId row);
  void remove(BlockId row);  // likewise
  void clear();

  std::optional<BlockId> first_to_go() const;
  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  bool holds(BlockId row) const { return places_.contains(index(row)); }

 private:
  using Order = std::list<BlockId>;  // used longest ago first
  struct Place {
    Order* in;
    Order::iterator at;
  };
  void move(Place& place, Order& to);

  Order last_, inner_;
  std::unordered_map<std::int32_t, Place> places_;  // by row
};

}  // namespace pagoda
