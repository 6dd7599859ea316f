#pragma once
// StateEviction: the order in which cached states are evicted when they exceed their budget. A state is as
// large as the K/V of thousands of tokens, so states have their own limit. It deals in names of pool rows,
// not in their content.
//
//     put --> wanted --another state of the same text is used instead--> superseded --use--> wanted
//
// A sequence leaves two states, before its prompt's end and at its end, and the next turn of a conversation
// starts from one of them: then the other is superseded. The state that a sequence started from is
// superseded, too, once the sequence has left its own, unless others started there. Superseded states are
// evicted first, least recently used first. Threads: none; owned by the engine thread.
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "request/ids.h"

namespace pagoda {

class StateEviction {
 public:
  void put(BlockId row);  // must not be present
  // No-ops for unknown rows. pair(): two states of the same sequence.
  void pair(BlockId a, BlockId b);
  void use(BlockId row);    // a sequence starts from it
  void leave(BlockId row);  // that sequence has left a later state
  void remove(BlockId row);
  void clear();

  std::optional<BlockId> next_victim() const;
  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
  bool holds(BlockId row) const { return places_.contains(index(row)); }

 private:
  using Order = std::list<BlockId>;  // least recently used first
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
