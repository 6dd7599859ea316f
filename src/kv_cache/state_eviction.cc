#include "kv_cache/state_eviction.h"

#include "base/check.h"

namespace pagoda {

StateEviction::Place* StateEviction::find(BlockId row) {
  const auto it = places_.find(index(row));
  return it == places_.end() ? nullptr : &it->second;
}

void StateEviction::move(Place& place, Order& to) {
  to.splice(to.end(), *place.in, place.at);
  place.in = &to;
}

void StateEviction::put(BlockId row) {
  const Place place{.in = &wanted_, .at = wanted_.insert(wanted_.end(), row)};
  CHECK(places_.emplace(index(row), place).second);
}

void StateEviction::pair(BlockId a, BlockId b) {
  Place *const first = find(a), *const second = find(b);
  if (first == nullptr || second == nullptr) return;
  first->partner = b;
  second->partner = a;
}

void StateEviction::use(BlockId row) {
  Place* const place = find(row);
  if (place == nullptr) return;
  ++place->uses;
  move(*place, wanted_);
  Place* const partner = place->partner ? find(*place->partner) : nullptr;
  // Its row may belong to another state by now.
  if (partner != nullptr && partner->partner == row && partner->in == &wanted_) move(*partner, superseded_);
}

void StateEviction::leave(BlockId row) {
  Place* const place = find(row);
  if (place != nullptr && place->uses <= 1 && place->in == &wanted_) move(*place, superseded_);
}

void StateEviction::remove(BlockId row) {
  const auto it = places_.find(index(row));
  if (it == places_.end()) return;
  it->second.in->erase(it->second.at);
  places_.erase(it);
}

void StateEviction::clear() {
  wanted_.clear();
  superseded_.clear();
  places_.clear();
}

std::optional<BlockId> StateEviction::next_victim() const {
  if (!superseded_.empty()) return superseded_.front();
  if (!wanted_.empty()) return wanted_.front();
  return std::nullopt;
}

}  // namespace pagoda
