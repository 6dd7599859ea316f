#pragma once
// StateEviction: which cached states are evicted first when they take more than their budget. A state is as
// large as the keys and values of thousands of tokens, so states have a limit of their own. It names rows of
// the pool, and knows nothing of their content.
//
//     put --> wanted --another state of the same text is used instead--> superseded --use--> wanted
//
// A sequence leaves two states, before its prompt's end and at its end, and the next turn of a conversation
// begins at one of them: then the other is superseded, and so is the one it began from, once it has left one
// of its own, unless others began there, too. Superseded states are evicted first, least recently used first.
// Threads: none; owned by the engine thread.
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "request/ids.h"

namespace pagoda {

class StateEviction {
 public:
  void put(BlockId row);  // not there yet
  void pair(BlockId a,
            BlockId b);   // a state of the same sequence; like the calls below without effect on unknown ones
  void use(BlockId row);  // a sequence begins from it
  void leave(BlockId row);  // which has left a later one
  void remove(BlockId row);
  void clear();

  std::optional<BlockId> next_victim() const;
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

  Order wanted_, superseded_;
  std::unordered_map<std::int32_t, Place> places_;  // by row
};

}  // namespace pagoda
