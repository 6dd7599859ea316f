#include "kv_cache/state_shelf.h"

#include "base/check.h"

namespace pagoda {

StateShelf::Place* StateShelf::find(BlockId row) {
  const auto it = places_.find(index(row));
  return it == places_.end() ? nullptr : &it->second;
}

void StateShelf::move(Place& place, Order& to) {
  to.splice(to.end(), *place.in, place.at);
  place.in = &to;
}

void StateShelf::put(BlockId row) {
  const Place place{.in = &wanted_, .at = wanted_.insert(wanted_.end(), row)};
  CHECK(places_.emplace(index(row), place).second);
}

void StateShelf::pair(BlockId a, BlockId b) {
  Place *const first = find(a), *const second = find(b);
  if (first == nullptr || second == nullptr) return;
  first->partner = b;
  second->partner = a;
}

void StateShelf::use(BlockId row) {
  Place* const place = find(row);
  if (place == nullptr) return;
  ++place->uses;
  move(*place, wanted_);
  Place* const partner = place->partner ? find(*place->partner) : nullptr;
  // Its row may be another state's by now.
  if (partner != nullptr && partner->partner == row && partner->in == &wanted_) move(*partner, passed_);
}

void StateShelf::leave(BlockId row) {
  Place* const place = find(row);
  if (place != nullptr && place->uses <= 1 && place->in == &wanted_) move(*place, passed_);
}

void StateShelf::remove(BlockId row) {
  const auto it = places_.find(index(row));
  if (it == places_.end()) return;
  it->second.in->erase(it->second.at);
  places_.erase(it);
}

void StateShelf::clear() {
  wanted_.clear();
  passed_.clear();
  places_.clear();
}

std::optional<BlockId> StateShelf::first_to_go() const {
  if (!passed_.empty()) return passed_.front();
  if (!wanted_.empty()) return wanted_.front();
  return std::nullopt;
}

}  // namespace pagoda
