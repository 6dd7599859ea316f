#pragma once
// FakeTiers: carries out a FakeModelRunner's tier moves, as late and as lossy as is allowed. A store reads
// its pages, and a fetch writes them, when it is answered some steps later, unless cancelled by then. So a
// row that is reused or read too early changes the tokens. Rows that exceed the capacity move to a simulated
// peer.
#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "request/tier_moves.h"

namespace pagoda::fake {

struct TierFaults {
  std::uint64_t seed = 1;
  int max_delay = 3;  // steps
  double lost_stores = 0, lost_fetches = 0;
  std::size_t max_rows = 1'000'000;
};

class FakeTiers {
 public:
  explicit FakeTiers(const TierFaults& faults) : faults_(faults) {}

  bool pending() const { return !moves_.empty() || !asks_.empty() || !cancelled_.empty() || !found_.empty(); }
  // Rows that are kept are reported as found again.
  void erase(bool keep_rows) {
    moves_.clear();
    cancelled_.clear();
    found_.clear();
    asks_.clear();
    if (!keep_rows) rows_.clear();
    for (const auto& [key, row] : rows_) found_.push_back({.key = key, .owner = row.owner, .tiers = 1});
  }
  void erase(const TierErase& what) {
    std::erase_if(rows_, [&](const auto& row) { return what.keys.contains(row.first); });
    std::erase_if(moves_, [&](const auto& move) {
      if (move.second.fetches || !what.keys.contains(move.second.row.key)) return false;
      cancelled_.push_back({.ticket = move.first, .ok = false});
      return true;
    });
  }
  // Called in a step before anything else.
  void cancel(const TierMoves& moves) {
    for (const TierTicket ticket : moves.cancels) {
      if (moves_.erase(ticket) + asks_.erase(ticket) > 0)
        cancelled_.push_back({.ticket = ticket, .ok = false});
    }
  }
  // Called later in the step: accepts its moves, and answers some.
  TierNews run(const TierMoves& moves, std::vector<std::uint64_t>& pool, std::size_t page_size) {
    for (const TierStore& store : moves.stores) add(store.ticket, store.row, store.pages, false);
    for (const TierFetch& fetch : moves.fetches) add(fetch.ticket, fetch.row, fetch.pages, true);
    for (const TierRow& touch : moves.touches)
      if (const auto it = rows_.find(touch.key); it != rows_.end()) it->second.use = touch.use;
    for (const TierAsk& ask : moves.asks) asks_.emplace(ask.ticket, std::pair(ask, draw_delay()));
    TierNews news;
    news.found = std::exchange(found_, {});
    news.done = std::exchange(cancelled_, {});
    answer_asks(news);
    for (auto it = moves_.begin(); it != moves_.end();) {
      if (--it->second.delay >= 0) {
        ++it;
        continue;
      }
      const bool ok =
          it->second.fetches ? fetch(it->second, pool, page_size) : store(it->second, pool, page_size, news);
      const TierSet tiers = ok && !it->second.fetches ? 1 : 0;
      news.done.push_back({.ticket = it->first, .ok = ok, .tiers = tiers});
      it = moves_.erase(it);
    }
    return news;
  }

  std::int64_t num_fetched = 0, num_lost = 0, num_from_peer = 0;

 private:
  struct Row {
    std::vector<TokenId> tokens;
    std::vector<std::uint64_t> content;
    std::uint64_t use = 0;
    CacheOwner owner = {};
  };
  struct Move {
    TierRow row;
    std::vector<BlockId> pages;
    bool fetches = false;
    int delay = 0;
  };
  double draw() { return random_uniform(faults_.seed, 77, ++num_draws_); }
  void add(TierTicket ticket, const TierRow& row, const std::vector<BlockId>& pages, bool fetches) {
    const Move move{.row = row, .pages = pages, .fetches = fetches, .delay = draw_delay()};
    CHECK(moves_.emplace(ticket, move).second);
  }
  int draw_delay() { return static_cast<int>(draw() * (faults_.max_delay + 1)); }
  void answer_asks(TierNews& news) {
    for (auto it = asks_.begin(); it != asks_.end();) {
      auto& [ask, delay] = it->second;
      if (--delay >= 0) {
        ++it;
        continue;
      }
      const bool ok = draw() >= faults_.lost_fetches;
      for (const TierKey& key : ask.keys)
        if (ok && peer_rows_.contains(key)) news.found.push_back({.key = key, .owner = ask.owner});
      news.done.push_back({.ticket = it->first, .ok = ok});
      it = asks_.erase(it);
    }
  }
  template <class Copy>
  static void each_slot(const Move& move, std::size_t page_size, Copy copy) {
    for (std::size_t page = 0; page < move.pages.size(); ++page)
      for (std::size_t i = 0; i < page_size; ++i)
        copy(page * page_size + i, static_cast<std::size_t>(index(move.pages[page])) * page_size + i);
  }
  bool store(const Move& move, const std::vector<std::uint64_t>& pool, std::size_t page_size,
             TierNews& news) {
    if (draw() < faults_.lost_stores) return false;
    Row& row = rows_[move.row.key];
    row = {.tokens = move.row.tokens, .content = {}, .use = move.row.use, .owner = move.row.owner};
    row.content.resize(move.pages.size() * page_size);
    each_slot(move, page_size, [&](std::size_t at, std::size_t slot) { row.content[at] = pool.at(slot); });
    while (rows_.size() > faults_.max_rows) {
      const auto oldest = std::ranges::min_element(
          rows_, [](const auto& a, const auto& b) { return a.second.use < b.second.use; });
      news.gone.push_back({.key = oldest->first, .tiers = 1});
      peer_rows_[oldest->first] = std::move(oldest->second);
      rows_.erase(oldest);
    }
    return true;
  }
  bool fetch(const Move& move, std::vector<std::uint64_t>& pool, std::size_t page_size) {
    const Row* row = nullptr;
    if (const auto kept = rows_.find(move.row.key); kept != rows_.end()) {
      row = &kept->second;
    } else if (const auto at_peer = peer_rows_.find(move.row.key); at_peer != peer_rows_.end()) {
      row = &at_peer->second;
      ++num_from_peer;
    }
    const bool lost = row == nullptr || draw() < faults_.lost_fetches;
    ++(lost ? num_lost : num_fetched);
    // Whether lost or not, the pages may be overwritten meanwhile.
    each_slot(move, page_size,
              [&](std::size_t at, std::size_t slot) { pool.at(slot) = lost ? 0xBAD : row->content.at(at); });
    return !lost && row->tokens == move.row.tokens;
  }

  const TierFaults faults_;
  std::map<TierTicket, Move> moves_;
  std::vector<TierDone> cancelled_;
  std::vector<TierFound> found_;
  std::map<TierTicket, std::pair<TierAsk, int>> asks_;
  std::unordered_map<TierKey, Row, TierKeyHasher> rows_, peer_rows_;
  std::uint64_t num_draws_ = 0;
};

}  // namespace pagoda::fake
