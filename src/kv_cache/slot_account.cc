#include "kv_cache/slot_account.h"

#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

template <class Level>
void add(Level& level, std::int32_t amount) {
  if (amount > level.most) level = {.most = amount, .times = 0};
  if (amount == level.most) ++level.times;
}

template <class Level>
void remove(Level& level, std::int32_t amount) {
  if (amount == level.most) --level.times;
}

}  // namespace

SlotAccount::Row& SlotAccount::at(BlockId row) {
  const auto place = static_cast<std::size_t>(index(row));
  if (place >= rows_.size()) rows_.resize(place + 1);
  return rows_[place];
}

void SlotAccount::count(const Row& row, std::int64_t sign) {
  if (row.stale) return;
  total_.computed += sign * row.num_pages * row.computed.most;
  total_.known += sign * row.num_pages * row.known.most;
}

void SlotAccount::settle(BlockId name, Row& row) {
  const bool stale = row.num_holders > 0 && (row.computed.times == 0 || row.known.times == 0);
  if (stale && !row.stale) stale_.push_back(name);
  row.stale |= stale;
  if (row.num_holders == 0) row = {};
  count(row, 1);
}

void SlotAccount::hold(BlockId name, std::int32_t num_pages, RowFill fill) {
  Row& row = at(name);
  count(row, -1);
  row.num_pages = num_pages;
  ++row.num_holders;
  total_.held += num_pages;
  add(row.computed, fill.computed);
  add(row.known, fill.known);
  settle(name, row);
}

void SlotAccount::change(BlockId name, RowFill from, RowFill to) {
  if (from == to) return;
  Row& row = at(name);
  CHECK(row.num_holders > 0);
  count(row, -1);
  remove(row.computed, from.computed);
  remove(row.known, from.known);
  if (row.num_holders == 1) row.computed = row.known = {};
  add(row.computed, to.computed);
  add(row.known, to.known);
  settle(name, row);
}

void SlotAccount::leave(BlockId name, RowFill fill) {
  Row& row = at(name);
  CHECK(row.num_holders > 0);
  count(row, -1);
  --row.num_holders;
  total_.held -= row.num_pages;
  remove(row.computed, fill.computed);
  remove(row.known, fill.known);
  settle(name, row);
}

SlotAccount::Total SlotAccount::total(const Holders& holders) {
  for (const BlockId name : std::exchange(stale_, {})) {
    Row& row = at(name);
    if (!row.stale) continue;  // all holders have left since
    row.computed = row.known = {};
    holders(name, [&row](RowFill fill) {
      add(row.computed, fill.computed);
      add(row.known, fill.known);
    });
    row.stale = false;
    CHECK(row.computed.times > 0 && row.known.times > 0);
    count(row, 1);
  }
  return total_;
}

}  // namespace pagoda
