#include "kv_cache/state_shelf.h"

#include "base/check.h"

namespace pagoda {

void StateShelf::move(Place& place, Order& to) {
  to.splice(to.end(), *place.in, place.at);
  place.in = &to;
}

void StateShelf::put(BlockId row) {
  const bool fresh = places_.emplace(index(row), Place{&last_, last_.insert(last_.end(), row)}).second;
  CHECK(fresh);
}

void StateShelf::use(BlockId row) {
  if (const auto it = places_.find(index(row)); it != places_.end()) move(it->second, *it->second.in);
}

void StateShelf::pass(BlockId row) {
  const auto it = places_.find(index(row));
  if (it != places_.end() && it->second.in == &last_) move(it->second, inner_);
}

void StateShelf::remove(BlockId row) {
  const auto it = places_.find(index(row));
  if (it == places_.end()) return;
  it->second.in->erase(it->second.at);
  places_.erase(it);
}

void StateShelf::clear() {
  last_.clear();
  inner_.clear();
  places_.clear();
}

std::optional<BlockId> StateShelf::first_to_go() const {
  if (!inner_.empty()) return inner_.front();
  if (!last_.empty()) return last_.front();
  return std::nullopt;
}

}  // namespace pagoda
