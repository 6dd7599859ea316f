// KvTiers while the tiers are full and small compared with the pool: both together hold the most if they hold
// different rows. A row unknown to any tier is then stored as late as possible, when the pool is about to
// evict it, and rows that a tier has are evicted first. So each row is written once, and the rows finally
// dropped are the least recently used ones, wherever they are.
//     released -> held back -> stored, the longest unused first -> evicted like any other
// A part of the pool is kept evictable without loss. An arrival that needs more waits until enough rows have
// been stored, for at most a share of the time that computing them would take.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv_cache/kv_tiers.h"

namespace pagoda {
namespace {
constexpr std::int64_t kSmall = 2;    // times the size of the pool
constexpr std::int64_t kReserve = 6;  // a sixth of the pool
}  // namespace

bool KvTiers::are_small() const {
  std::int64_t left = kSmall * supply_.num_pages();
  for (const auto& [key, in] : known_) {
    left -= geometry_.groups()[static_cast<std::size_t>(key.group)].pages_per_row;
    if (left < 0) return false;
  }
  return true;
}

void KvTiers::hold_back(BlockId row) {
  const auto at = static_cast<std::size_t>(index(row));
  if (at >= uses_.size()) uses_.resize(at + 1);
  uses_[at] = next_use(pool_.credit(row));
  pool_.hold_back(row);
  keep_reserve();
}

// Stores the held-back row that would be evicted next.
bool KvTiers::store_oldest() {
  if (pool_.num_held_back() == 0 || tickets_.size() >= kMaxTickets) return false;
  const BlockId row = pool_.next_held_back();
  pool_.let_go(row);
  store(row, uses_[static_cast<std::size_t>(index(row))]);
  return true;
}

void KvTiers::keep_reserve() {
  while (supply_.num_free() - pool_.num_held_back() < supply_.num_pages() / kReserve) {
    if (!store_oldest()) return;
  }
}

// Returns false if `pages` pages are available without loss.
bool KvTiers::make_space(SequenceId id, std::int64_t pages, double patience_s) {
  Arriving arriving{.rows = {}, .asking = Arriving::Asking::making_space};
  while (supply_.num_free() - pool_.num_held_back() < pages && store_oldest()) {
    tickets_.at(TierTicket{last_ticket_}).waiting.push_back(id);
    ++arriving.num_missing;
  }
  if (arriving.num_missing == 0) return false;
  arriving.ask = ask_for(id, {.keys = {}, .patience_s = patience_s});
  arrivals_.emplace(id, std::move(arriving));
  return true;
}

void KvTiers::one_has_left(SequenceId id) {
  if (--arrivals_.at(id).num_missing == 0) end_making_space(id);
}

void KvTiers::wait_no_more(SequenceId id) {
  for (auto& [ticket, record] : tickets_)
    if (record.kind == Ticket::Kind::store) std::erase(record.waiting, id);
}

void KvTiers::end_making_space(SequenceId id) {
  Arriving& arriving = arrivals_.at(id);
  wait_no_more(id);
  arriving.num_missing = 0;
  arriving.asking = Arriving::Asking::answered;
  arriving.made_space = true;
  const auto timer = tickets_.find(arriving.ask);
  if (timer == tickets_.end()) return;
  timer->second.waiting.clear();
  cancel(arriving.ask);
}

}  // namespace pagoda
