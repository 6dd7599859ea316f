#pragma once
// StateShelf: which states are kept for the prefix cache, and which of them goes first when they take more
// than their budget. A state is as large as thousands of tokens' keys and values, so there is a limit of its
// own to them. Names rows of the pool, as BlockPool does; knows nothing of their content.
//
//     put --> wanted --another of the same text is wanted instead--> passed --use--> wanted
//
// Of a sequence two states are kept, before its prompt's end and at its end: the next turn of a conversation
// begins at the second, or at the first where a template has changed the answer. Then the other is passed;
// and so is the one that a turn began from, once the turn has left its own, unless others began there, too.
// Passed ones go first, each kind the one that was used longest ago. Threads: none; owned by the manager.
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "request/ids.h"

namespace pagoda {

class StateShelf {
 public:
  void put(BlockId row);  // not there yet
  void pair(BlockId a,
            BlockId b);     // of the same sequence; like those below without effect on what is not there
  void use(BlockId row);    // a sequence begins from it
  void leave(BlockId row);  // which has left a later one
  void remove(BlockId row);
  void clear();

  std::optional<BlockId> first_to_go() const;
  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  bool holds(BlockId row) const { return places_.contains(index(row)); }

 private:
  using Order = std::list<BlockId>;  // used longest ago first
  struct Place {
    Order* in;
    Order::iterator at;
    std::int32_t uses = 0;
    std::optional<BlockId> partner = {};
  };
  Place* find(BlockId row);
  static void move(Place& place, Order& to);

  Order wanted_, passed_;
  std::unordered_map<std::int32_t, Place> places_;  // by row
};

}  // namespace pagoda
