#include "kv_cache/kv_tiers.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {
constexpr double kUnknownCost = 1e-3;     // cost of a token, until one is measured
constexpr double kLeastPatience = 0.01;   // seconds: a step of a busy engine
constexpr double kAskShare = 0.25;        // share of the time to compute the prompt; the rest is for fetches
constexpr double kSpaceShare = 0.25;      // share of that time as well
constexpr std::size_t kMaxAsked = 16384;  // rows
}  // namespace

KvTiers::KvTiers(const KvGeometry& geometry, BlockPool& pool, PageSupply& supply, PrefixIndex& index,
                 PrefixCache& cache, const Promises& promises, PrefixCacheStats& stats, Peers peers)
    : geometry_(geometry),
      pool_(pool),
      supply_(supply),
      index_(index),
      cache_(cache),
      promises_(promises),
      stats_(stats),
      asks_(peers == Peers::asked) {
  CHECK(index_.verifies());  // tiers compare a row's tokens
  index_.set_tiers(&known_);
  pool_.set_on_cached([this](BlockId row) { on_cached(row); });
  pool_.set_on_stop_leaving([this](BlockId row) { on_stop_leaving(row); });
}

// A row with credit counts as used later. All use values are distinct, since credit is less than kMostCredit.
std::uint64_t KvTiers::next_use(std::int64_t credit) {
  constexpr std::uint64_t kMostCredit = std::uint64_t{1} << 20;
  const std::uint64_t use = ++last_use_;
  const std::uint64_t later = std::min(static_cast<std::uint64_t>(credit), kMostCredit - 1);
  return (use + later) * kMostCredit + use % kMostCredit;
}

TierRow KvTiers::tier_row(const TierKey& key, std::span<const TokenId> tokens, const CacheOwner& owner,
                          std::uint64_t use) const {
  return {.key = key,
          .tokens = {tokens.begin(), tokens.end()},
          .use = use,
          .compute_s = static_cast<double>(tokens.size()) * token_cost(),
          .owner = owner};
}

double KvTiers::token_cost() const { return seconds_per_token_ > 0 ? seconds_per_token_ : kUnknownCost; }

void KvTiers::on_cached(BlockId row) {
  const TierKey key =
      PrefixIndex::tier_key(pool_.hash_of(row), static_cast<std::size_t>(pool_.group_of(row)));
  const CacheOwner& owner = pool_.owner_of(row);
  if (const auto known = known_.find(key); known != known_.end()) {
    CacheOwner& users = known->second.owner;
    users = users.joined_by(owner);
    moves_.touches.push_back(tier_row(key, {}, users, next_use(pool_.credit(row))));
    return;
  }
  if (pool_.is_leaving(row)) return;
  if (complement_)
    hold_back(row);
  else if (tickets_.size() < kMaxTickets)
    store(row, next_use(pool_.credit(row)));
}

void KvTiers::store(BlockId row, std::uint64_t use) {
  const TierKey key =
      PrefixIndex::tier_key(pool_.hash_of(row), static_cast<std::size_t>(pool_.group_of(row)));
  const CacheOwner& owner = pool_.owner_of(row);
  pool_.begin_leaving(row);
  const TierTicket ticket{++last_ticket_};
  TierStore& store = moves_.stores.emplace_back(
      TierStore{.ticket = ticket, .row = tier_row(key, index_.content_of(row), owner, use)});
  pool_.append_pages(row, store.pages);
  leaving_.emplace(index(row), ticket);
  tickets_.emplace(ticket, Ticket{.key = key, .row = row, .owner = owner});
}

void KvTiers::on_stop_leaving(BlockId row) {
  const auto it = leaving_.find(index(row));
  CHECK(it != leaving_.end());
  cancel(std::exchange(it->second, TierTicket{}));
  leaving_.erase(it);
}

// A record that has not been taken yet is removed. Otherwise its ticket stays open until it is answered.
void KvTiers::cancel(TierTicket ticket) {
  const auto erase = [ticket](auto& records) {
    return std::erase_if(records, [&](const auto& record) { return record.ticket == ticket; }) > 0;
  };
  if (erase(moves_.stores) || erase(moves_.fetches) || erase(moves_.asks)) {
    const auto ended = tickets_.extract(ticket);
    for (const SequenceId id : ended.mapped().waiting) one_has_left(id);
    return;
  }
  moves_.cancels.push_back(ticket);
  tickets_.at(ticket).row.reset();
}

KvTiering::Arrival KvTiers::begin_arrival(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                                          std::int64_t margin) {
  Arriving before;
  const bool asked = answered(id);
  if (asked) before = std::exchange(arrivals_.at(id), {});
  end_arrival(id);
  if (!asked && ask(id, tokens, use)) return Arrival::begun;
  const Arrival arrival = fetch_rows(id, tokens, use, margin, before);
  if (asked && arrival == Arrival::no_room)
    arrivals_.emplace(id, std::move(before));
  else if (const auto at = arrivals_.find(id);
           at != arrivals_.end() && at->second.asking == Arriving::Asking::making_space)
    at->second.at_peers = std::move(before.at_peers);
  else
    forget(before.at_peers);
  return arrival;
}

bool KvTiers::ask(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use) {
  if (!asks_ || tokens.empty() || tickets_.size() >= kMaxTickets) return false;
  std::vector<TierKey> keys = cache_.missing_keys(tokens, use.salt, kMaxAsked);
  if (keys.empty()) return false;
  const double patience_s =
      std::max(kLeastPatience, kAskShare * static_cast<double>(tokens.size()) * token_cost());
  const TierTicket ticket =
      ask_for(id, {.keys = std::move(keys), .owner = use.claim.owner, .patience_s = patience_s});
  arrivals_.emplace(id, Arriving{.rows = {}, .asking = Arriving::Asking::asked, .ask = ticket});
  return true;
}

TierTicket KvTiers::ask_for(SequenceId id, TierAsk ask) {
  ask.ticket = TierTicket{++last_ticket_};
  tickets_.emplace(ask.ticket, Ticket{.kind = Ticket::Kind::ask, .waiting = {id}, .asked = ask.keys});
  return moves_.asks.emplace_back(std::move(ask)).ticket;
}

// Records an answer: the keys of the rows that peers have are now known.
void KvTiers::know_answer(const Ticket& ticket) {
  for (const SequenceId id : ticket.waiting) {
    Arriving& arriving = arrivals_.at(id);
    if (arriving.asking == Arriving::Asking::making_space) {
      end_making_space(id);
      continue;
    }
    arriving.asking = Arriving::Asking::answered;
    for (const TierKey& key : ticket.asked) {
      if (!known_.contains(key)) continue;
      ++at_peers_[key];
      arriving.at_peers.push_back(key);
    }
  }
}

// Forgets rows at peers: peers are asked again for each arrival, and a row that comes from a peer is stored
// like a computed one.
void KvTiers::forget(const std::vector<TierKey>& at_peers) {
  for (const TierKey& key : at_peers) {
    const auto it = at_peers_.find(key);
    if (it == at_peers_.end() || --it->second > 0) continue;
    at_peers_.erase(it);
    forget(key, 0);
  }
}

KvTiering::Arrival KvTiers::fetch_rows(SequenceId id, std::span<const TokenId> tokens, const CacheUse& use,
                                       std::int64_t margin, const Arriving& before) {
  if (known_.empty() || tokens.empty() || tickets_.size() >= kMaxTickets) return Arrival::nothing;
  PrefixCache::Reach reach = cache_.reach_with_tiers(tokens, use.salt);
  if (reach.rows.empty()) return Arrival::nothing;
  Arriving arriving{.rows = {}, .num_missing = 0, .num_in_pool = reach.num_in_pool};
  std::int64_t pages = 0;
  for (PrefixCache::Row& row : reach.rows) {
    const TierKey key = PrefixIndex::tier_key(row.hash, row.group);
    Held& held = arriving.rows.emplace_back();
    if (index_.find(row.hash, row.group, row.content)) {
      held.row = *pool_.acquire_cached(row.hash, static_cast<std::int32_t>(row.group));
    } else if (const auto under_way = fetching_.find(key); under_way != fetching_.end()) {
      Ticket& ticket = tickets_.at(under_way->second);
      held = {.row = *ticket.row, .of = {}, .state = Held::State::pending};
      pool_.share(held.row);
      ticket.waiting.push_back(id);
      ++arriving.num_missing;
    } else {
      held.state = Held::State::wanted;
      row.claim = {.owner = known_.at(key).owner, .expires = 1};  // long ago, until it is used
      pages += geometry_.groups()[row.group].pages_per_row;
    }
    held.of = std::move(row);
    held.of.adapter = use.adapter;
  }
  if (pages + margin > supply_.num_free() - promises_.set_aside() || !supply_.make_available(pages)) {
    give_up(id, arriving);
    return Arrival::no_room;
  }
  const double patience_s = std::max(kLeastPatience, (reach.num_tokens - reach.num_in_pool) * token_cost());
  if (!before.made_space && make_space(id, pages, kSpaceShare * patience_s)) {
    // Touch them, so that they are still in the tiers when there is space.
    for (const Held& held : std::views::reverse(arriving.rows))
      if (held.state == Held::State::wanted)
        moves_.touches.push_back(tier_row(PrefixIndex::tier_key(held.of.hash, held.of.group), {},
                                          held.of.claim.owner, next_use()));
    give_up(id, arriving);
    return Arrival::begun;
  }
  for (Held& held : arriving.rows) {
    if (held.state != Held::State::wanted) continue;
    fetch(held, id, patience_s);
    ++arriving.num_missing;
  }
  stats_.external_queries += std::ssize(tokens) - reach.num_in_pool;
  CHECK(arriving.num_missing > 0);
  arrivals_.emplace(id, std::move(arriving));
  return Arrival::begun;
}

void KvTiers::fetch(Held& held, SequenceId id, double patience_s) {
  const TierKey key = PrefixIndex::tier_key(held.of.hash, held.of.group);
  const TierTicket ticket{++last_ticket_};
  TierFetch& fetch = moves_.fetches.emplace_back(
      TierFetch{.ticket = ticket,
                .row = tier_row(key, held.of.content, held.of.claim.owner, next_use()),
                .patience_s = patience_s});
  const auto row = pool_.allocate_row(geometry_.groups()[held.of.group].pages_per_row, fetch.pages);
  CHECK(row);
  pool_.begin_arriving(*row);
  held.row = *row;
  held.state = Held::State::pending;
  fetching_.emplace(key, ticket);
  tickets_.emplace(ticket, Ticket{.kind = Ticket::Kind::fetch, .key = key, .row = *row, .waiting = {id}});
}

bool KvTiers::arriving(SequenceId id) const {
  const auto it = arrivals_.find(id);
  return it != arrivals_.end() &&
         (it->second.num_missing > 0 || it->second.asking == Arriving::Asking::asked);
}

bool KvTiers::answered(SequenceId id) const {
  const auto it = arrivals_.find(id);
  return it != arrivals_.end() && it->second.asking == Arriving::Asking::answered;
}

std::int32_t KvTiers::brought(SequenceId id, std::int32_t num_found) const {
  const auto it = arrivals_.find(id);
  if (it == arrivals_.end() || it->second.asking != Arriving::Asking::no) return 0;
  return std::max(0, num_found - it->second.num_in_pool);
}

void KvTiers::end_arrival(SequenceId id) {
  const auto it = arrivals_.find(id);
  if (it == arrivals_.end()) return;
  Arriving arriving = std::move(it->second);
  arrivals_.erase(it);
  give_up(id, arriving);
}

void KvTiers::give_up(SequenceId id, Arriving& arriving) {
  if (arriving.asking == Arriving::Asking::asked || arriving.asking == Arriving::Asking::making_space) {
    tickets_.at(arriving.ask).waiting.clear();
    cancel(arriving.ask);
  }
  if (arriving.asking == Arriving::Asking::making_space) wait_no_more(id);
  forget(arriving.at_peers);
  for (Held& held : arriving.rows) {
    if (held.state != Held::State::pending) continue;
    const auto at = fetching_.find(PrefixIndex::tier_key(held.of.hash, held.of.group));
    CHECK(at != fetching_.end());
    Ticket& ticket = tickets_.at(at->second);
    std::erase(ticket.waiting, id);
    if (!ticket.waiting.empty()) continue;
    pool_.end_arriving(held.row);
    cancel(at->second);
    fetching_.erase(at);
  }
  release(arriving);
}

// Releases the end of a text first, as everywhere.
void KvTiers::release(Arriving& arriving) {
  for (const Held& held : std::views::reverse(arriving.rows))
    if (held.state != Held::State::wanted) pool_.release_one(held.row);
  arriving.rows.clear();
}

void KvTiers::on_news(const TierNews& news) {
  for (const TierFound& found : news.found) remember(found.key, found.owner, found.tiers);
  for (const TierDone& done : news.done) answer(done);
  bool full = false;
  for (const TierGone& gone : news.gone) full = forget(gone.key, gone.tiers) || full;
  if (full) complement_ = are_small();
  // Engines that share a tier count alike, whichever of them is busier.
  last_use_ += news.found.size();
}

void KvTiers::remember(const TierKey& key, const CacheOwner& owner, TierSet tiers) {
  TierSet& known = known_.emplace(key, PrefixIndex::InTiers{.owner = owner}).first->second.tiers;
  report(key, tiers & ~known, true);
  known |= tiers;
}

bool KvTiers::forget(const TierKey& key, TierSet tiers) {
  const auto it = known_.find(key);
  if (it == known_.end()) return false;
  TierSet& known = it->second.tiers;
  report(key, tiers & known, false);
  known &= ~tiers;
  if (known != 0) return false;
  known_.erase(it);
  return true;
}

// Only the first group's rows are reported, as for the pool.
void KvTiers::report(const TierKey& key, TierSet tiers, bool stored) const {
  CacheObserver* const observer = cache_.observer();
  if (observer == nullptr || key.group != 0) return;
  for (std::size_t tier = 0; tiers != 0; ++tier, tiers >>= 1) {
    if ((tiers & 1) == 0) continue;
    if (stored)
      observer->on_tier_stored(tier, {key.chain});
    else
      observer->on_tier_removed(tier, {key.chain});
  }
}

void KvTiers::answer(const TierDone& done) {
  const auto it = tickets_.find(done.ticket);
  if (it == tickets_.end()) return;  // from before the last clear()
  const Ticket ticket = std::move(it->second);
  tickets_.erase(it);
  if (ticket.kind == Ticket::Kind::ask) return know_answer(ticket);
  if (ticket.kind == Ticket::Kind::store) {
    if (ticket.row) {
      leaving_.erase(index(*ticket.row));
      pool_.end_leaving(*ticket.row);
    }
    if (done.ok && !ticket.erased)
      remember(ticket.key, ticket.row ? pool_.owner_of(*ticket.row) : ticket.owner, done.tiers);
    for (const SequenceId id : ticket.waiting) one_has_left(id);
    return;
  }
  if (const auto known = known_.find(ticket.key); known != known_.end())
    remember(ticket.key, known->second.owner, done.tiers);
  if (!ticket.row) return;
  fetching_.erase(ticket.key);
  pool_.end_arriving(*ticket.row);
  if (!done.ok) forget(ticket.key, ~TierSet{0});
  for (const SequenceId waiting : ticket.waiting) {
    Arriving& arriving = arrivals_.at(waiting);
    const auto held = std::ranges::find(arriving.rows, *ticket.row, &Held::row);
    CHECK(held != arriving.rows.end() && held->state == Held::State::pending);
    held->state = Held::State::came;
    if (!done.ok) {
      pool_.release_one(held->row);
      arriving.rows.erase(held);
    }
    if (--arriving.num_missing == 0) arrived(arriving);
  }
}

// From now on the rows are found like any others; rows of windows and states follow the full rows that they
// depend on.
void KvTiers::arrived(Arriving& arriving) {
  for (const Held& held : arriving.rows)
    if (held.state == Held::State::came) cache_.publish_arrived(held.row, held.of);
  release(arriving);
}

std::unordered_set<TierKey, TierKeyHasher> KvTiers::erase(const CacheOwner& owner) {
  std::unordered_set<TierKey, TierKeyHasher> keys;
  for (auto& [id, ticket] : tickets_) {
    if (ticket.kind != Ticket::Kind::store ||
        !owner.covers(ticket.row ? pool_.owner_of(*ticket.row) : ticket.owner))
      continue;
    ticket.erased = true;
    keys.insert(ticket.key);
  }
  std::erase_if(known_, [&](const auto& row) {
    if (!owner.covers(row.second.owner)) return false;
    keys.insert(row.first);
    report(row.first, row.second.tiers, false);
    return true;
  });
  return keys;
}

void KvTiers::take(TierMoves& moves) {
  keep_reserve();
  moves.clear();
  std::swap(moves, moves_);
}

void KvTiers::clear() {
  known_.clear();
  complement_ = false;
  std::vector<TierTicket> open;
  for (const auto& [id, ticket] : tickets_) open.push_back(id);
  std::ranges::sort(open);  // same order in every run
  for (const TierTicket id : open) answer({.ticket = id, .ok = false});
  moves_.clear();
}

void KvTiers::count_references(std::unordered_map<std::int32_t, std::int32_t>& references) const {
  for (const auto& [id, arriving] : arrivals_) {
    for (const Held& held : arriving.rows) {
      std::vector<BlockId> pages;
      pool_.append_pages(held.row, pages);
      for (const BlockId page : pages) ++references[index(page)];
    }
  }
}

void KvTiers::check_invariants() const {
  CHECK(std::cmp_equal(pool_.num_leaving(), leaving_.size()));
  std::int32_t arriving = 0;
  for (const auto& [key, id] : fetching_) {
    const Ticket& ticket = tickets_.at(id);
    CHECK(ticket.kind == Ticket::Kind::fetch && ticket.row && ticket.key == key && !ticket.waiting.empty());
    arriving += geometry_.groups()[static_cast<std::size_t>(key.group)].pages_per_row;
  }
  CHECK(arriving == pool_.num_arriving());
  for (const auto& [row, id] : leaving_) {
    const Ticket& ticket = tickets_.at(id);
    CHECK(ticket.kind == Ticket::Kind::store && ticket.row && index(*ticket.row) == row &&
          pool_.is_leaving(BlockId{row}));
  }
  for (const auto& [id, of] : arrivals_) {
    const auto pending = std::ranges::count(of.rows, Held::State::pending, &Held::state);
    const auto leaving = std::ranges::count_if(tickets_, [id = id](const auto& entry) {
      return entry.second.kind == Ticket::Kind::store &&
             std::ranges::find(entry.second.waiting, id) != entry.second.waiting.end();
    });
    CHECK(pending + leaving == of.num_missing && (pending > 0 || of.rows.empty()));
    CHECK((leaving > 0) == (of.asking == Arriving::Asking::making_space));
    if (of.asking == Arriving::Asking::asked || leaving > 0)
      CHECK(tickets_.at(of.ask).kind == Ticket::Kind::ask);
  }
}

}  // namespace pagoda
