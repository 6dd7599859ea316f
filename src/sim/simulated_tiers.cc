#include "sim/simulated_tiers.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pagoda {

SimulatedTiers::Move& SimulatedTiers::queue(std::deque<Move>& moves, TimeNs& free_at, TierTicket ticket,
                                            const TierRow& row, std::size_t num_pages, TimeNs now) {
  const double seconds = static_cast<double>(num_pages) * options_.block_bytes / options_.bytes_per_s;
  free_at = std::max(free_at, now) + static_cast<TimeNs>(std::ceil(seconds * 1e9));
  return moves.emplace_back(Move{.ticket = ticket,
                                 .key = row.key,
                                 .use = row.use,
                                 .num_blocks = static_cast<std::int64_t>(num_pages),
                                 .done = free_at});
}

TimeNs SimulatedTiers::latest(TimeNs now, double patience_s) {
  return now + static_cast<TimeNs>(std::clamp(patience_s, 0.0, 1e6) * 1e9);
}

void SimulatedTiers::submit(const TierMoves& moves, TimeNs now) {
  for (const TierTicket ticket : moves.cancels) {
    for (std::deque<Move>* const queue : {&fetches_, &stores_, &timers_}) {
      if (std::erase_if(*queue, [=](const Move& move) { return move.ticket == ticket; }) > 0)
        news_.done.push_back({.ticket = ticket, .ok = false});
    }
  }
  for (const TierFetch& fetch : moves.fetches) {
    Move& move = queue(fetches_, in_free_, fetch.ticket, fetch.row, fetch.pages.size(), now);
    const TimeNs last = latest(now, fetch.patience_s);
    move.late = move.done > last;
    move.done = std::min(move.done, last);
  }
  for (const TierAsk& ask : moves.asks)  // there are no peers
    timers_.push_back(
        {.ticket = ask.ticket, .key = {}, .done = ask.keys.empty() ? latest(now, ask.patience_s) : now});
  for (const TierStore& move : moves.stores)
    queue(stores_, out_free_, move.ticket, move.row, move.pages.size(), now);
  for (const TierRow& touch : moves.touches) {
    const auto it = rows_.find(touch.key);
    if (it == rows_.end() || it->second.use >= touch.use) continue;
    by_use_.erase(it->second.use);
    it->second.use = touch.use;
    by_use_.emplace(touch.use, touch.key);
  }
}

std::optional<TimeNs> SimulatedTiers::next_done() const {
  std::optional<TimeNs> next;
  for (const std::deque<Move>* const queue : {&fetches_, &stores_, &timers_})
    for (const Move& move : *queue) next = std::min(next.value_or(move.done), move.done);
  return next;
}

void SimulatedTiers::store(const Move& move) {
  const bool full = num_used_ + move.num_blocks > options_.num_blocks;
  // True if the row is older than every row that would be evicted for it.
  const bool oldest = full && !by_use_.empty() && by_use_.begin()->first > move.use;
  if (move.num_blocks > options_.num_blocks || oldest) {
    news_.done.push_back({.ticket = move.ticket, .ok = false});
    return;
  }
  news_.done.push_back({.ticket = move.ticket, .ok = true, .tiers = 1});
  if (!rows_.emplace(move.key, Row{.num_blocks = move.num_blocks, .use = move.use}).second) return;
  by_use_.emplace(move.use, move.key);
  num_used_ += move.num_blocks;
  while (num_used_ > options_.num_blocks) {
    const auto oldest = by_use_.begin();
    const auto row = rows_.find(oldest->second);
    num_used_ -= row->second.num_blocks;
    news_.gone.push_back({.key = row->first, .tiers = 1});
    rows_.erase(row);
    by_use_.erase(oldest);
  }
}

TierNews SimulatedTiers::take_news(TimeNs now) {
  std::erase_if(stores_, [&](const Move& move) {
    if (move.done > now) return false;
    store(move);
    return true;
  });
  std::erase_if(fetches_, [&](const Move& move) {
    if (move.done > now) return false;
    news_.done.push_back({.ticket = move.ticket, .ok = !move.late && rows_.contains(move.key)});
    return true;
  });
  std::erase_if(timers_, [&](const Move& move) {
    if (move.done > now) return false;
    news_.done.push_back({.ticket = move.ticket, .ok = false});
    return true;
  });
  return std::exchange(news_, {});
}

void SimulatedTiers::erase(const TierErase& what) {
  std::erase_if(stores_, [&](const Move& move) {
    if (!what.keys.contains(move.key)) return false;
    news_.done.push_back({.ticket = move.ticket, .ok = false});
    return true;
  });
  std::erase_if(by_use_, [&](const auto& entry) {
    if (!what.keys.contains(entry.second)) return false;
    const auto row = rows_.find(entry.second);
    num_used_ -= row->second.num_blocks;
    rows_.erase(row);
    return true;
  });
}

void SimulatedTiers::erase_all() {
  rows_.clear();
  by_use_.clear();
  num_used_ = 0;
  fetches_.clear();
  stores_.clear();
  timers_.clear();
  news_ = {};
}

}  // namespace pagoda
