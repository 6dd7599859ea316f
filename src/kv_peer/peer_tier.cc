#include "kv_peer/peer_tier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr TimeNs kConnect = 2 * kSecond;
constexpr TimeNs kFetch = 2 * kSecond;
constexpr TimeNs kRemembered = 60 * kSecond;
constexpr TimeNs kLeastBackoff = kSecond / 4, kMostBackoff = 30 * kSecond;
constexpr int kMaxLate = 3;  // consecutive late answers before a peer is left alone for a while

}  // namespace

PeerTier::Metrics::Metrics(MetricsRegistry& r)
    : connected(r.gauge("pagoda:kv_peer_connected", "Number of servers that K/V can be fetched from.")),
      asked(r.counter("pagoda:kv_peer_asked_blocks", "Number of blocks that other servers were asked for.")),
      hits(r.counter("pagoda:kv_peer_hits", "Number of blocks fetched from other servers.")),
      bytes_read(r.counter("pagoda:kv_peer_read_bytes", "Bytes of K/V fetched from other servers.")),
      misses(
          r.counter("pagoda:kv_peer_misses",
                    "Number of blocks that a server had when it was asked, and not when they were fetched.")),
      errors(r.counter("pagoda:kv_peer_errors",
                       "Number of answers of other servers that were late, cut off or wrong.")) {}

Result<std::unique_ptr<PeerTier>> PeerTier::open(PeerTierConfig config, MetricsRegistry& metrics) {
  for (const PeerAddress& peer : config.peers)
    if (config.secret == nullptr && !is_loopback(peer))
      return invalid_argument(concat("peer ", text_of(peer),
                                     " is another machine: it needs \"secret_file\" in "
                                     "kv_connector_extra_config"));
  return std::unique_ptr<PeerTier>(new PeerTier(std::move(config), metrics));
}

PeerTier::PeerTier(PeerTierConfig config, MetricsRegistry& metrics)
    : config_(std::move(config)), metrics_(metrics) {
  for (const PeerAddress& address : config_.peers)
    peers_.push_back({.address = address, .idle = {}, .in_use = {}});
  thread_ = std::thread([this] { keep_connected(); });
}

PeerTier::~PeerTier() {
  stop();
  thread_.join();
}

void PeerTier::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Peer& peer : peers_) {
      for (PeerLink* const link : peer.in_use) link->interrupt();
      peer.idle.clear();
    }
  }
  changed_.notify_all();
}

void PeerTier::keep_connected() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    for (Peer& peer : peers_) {
      drop_closed(peer);
      if (stopping_ || peer.num_links() >= kLinks || clock_.now() < peer.not_before) continue;
      lock.unlock();
      auto link = connect(peer.address);  // without the lock: peer.address never changes
      lock.lock();
      connected(peer, std::move(link));
    }
    count_connected();
    const bool waits = std::ranges::all_of(peers_, [this](const Peer& peer) {
      return peer.num_links() >= kLinks || clock_.now() < peer.not_before;
    });
    if (waits && !stopping_) changed_.wait_for(lock, std::chrono::milliseconds(250));
  }
}

void PeerTier::drop_closed(Peer& peer) {
  std::erase_if(peer.idle, [](const auto& link) { return !link->is_quiet(); });
}

Result<std::unique_ptr<PeerLink>> PeerTier::connect(const PeerAddress& address) const {
  const TimeNs deadline = clock_.now() + kConnect;
  auto link = PeerLink::connect(address, config_.secret.get(), deadline);
  if (!link) return link.error();
  if (!(*link)->write(encode_hello(1, {.fingerprint = config_.fingerprint}), deadline))
    return unavailable("the connection broke");
  const auto answer = (*link)->read_frame(deadline);
  // In TLS 1.3 the peer reports a rejected key only here.
  if (!answer) return unavailable("it has another secret or protocol, or no free connection");
  if (answer->head.type == PeerFrameType::welcome) return link;
  if (answer->head.type == PeerFrameType::refused)
    if (const auto why = parse_refused(answer->payload)) return unavailable(*why);
  return unavailable("it does not speak the protocol");
}

void PeerTier::connected(Peer& peer, Result<std::unique_ptr<PeerLink>> link) {
  if (link) {
    if (peer.num_links() == 0) log_info("kv", concat("peer ", text_of(peer.address), " is connected"));
    if (!stopping_) peer.idle.push_back(*std::move(link));
    peer.backoff = 0;
    peer.problem.clear();
    return;
  }
  peer.backoff = std::clamp(2 * peer.backoff, kLeastBackoff, kMostBackoff);
  peer.not_before = clock_.now() + peer.backoff;
  if (std::string problem = link.error().message(); peer.problem != problem) {
    log_warning("kv", concat("peer ", text_of(peer.address), ": ", problem));
    peer.problem = std::move(problem);
  }
}

void PeerTier::count_connected() {
  metrics_.connected.set(static_cast<double>(
      std::ranges::count_if(peers_, [](const Peer& peer) { return peer.num_links() > 0; })));
}

std::unique_ptr<PeerLink> PeerTier::borrow(std::size_t peer) {
  const std::lock_guard lock(mutex_);
  Peer& from = peers_[peer];
  drop_closed(from);
  if (stopping_ || from.idle.empty() || clock_.now() < from.not_before) return nullptr;
  std::unique_ptr<PeerLink> link = std::move(from.idle.back());
  from.idle.pop_back();
  from.in_use.push_back(link.get());
  return link;
}

void PeerTier::give_back(std::size_t peer, std::unique_ptr<PeerLink> link, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  Peer& to = peers_[peer];
  std::erase(to.in_use, link.get());
  if (outcome == Outcome::hit || outcome == Outcome::lost) {
    to.num_late = 0;
    if (!stopping_) to.idle.push_back(std::move(link));
    return;
  }
  metrics_.errors.add();
  to.num_late = outcome == Outcome::late ? to.num_late + 1 : kMaxLate;
  if (to.num_late >= kMaxLate) {
    to.num_late = 0;
    to.backoff = std::clamp(2 * to.backoff, kLeastBackoff, kMostBackoff);
    to.not_before = clock_.now() + to.backoff;
  }
  changed_.notify_all();
}

std::uint32_t PeerTier::next_number() {
  const std::lock_guard lock(mutex_);
  return ++last_number_;
}

bool PeerTier::lookup(const TierKey& key) const {
  const std::lock_guard lock(mutex_);
  return places_.contains(key);
}

void PeerTier::remember(const TierKey& key, std::size_t peer) {
  const std::lock_guard lock(mutex_);
  const TimeNs now = clock_.now();
  if (places_.size() >= kMaxPlaces)
    std::erase_if(places_, [&](const auto& p) { return p.second.until < now; });
  if (places_.size() >= kMaxPlaces) places_.clear();
  places_.insert_or_assign(key, Place{.peer = peer, .until = now + kRemembered});
}

void PeerTier::ask(const TierAsk& ask, TimeNs deadline, std::vector<TierKey>& found) {
  const TimeNs left = deadline - clock_.now();
  if (left <= 0 || ask.keys.empty() || ask.keys.size() > kMaxPeerKeys) return;
  const std::uint32_t number = next_number();
  // Peers must answer slightly before our own deadline.
  const std::vector<std::byte> question = encode_ask(
      number, {.patience_ms = static_cast<std::uint32_t>(std::min(left / 4 * 3 / kMs, 60'000 * TimeNs{1})),
               .keys = ask.keys});
  std::vector<std::unique_ptr<PeerLink>> links(peers_.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i] = borrow(i);
    if (links[i] == nullptr || links[i]->write(question, deadline)) continue;
    const Outcome outcome = links[i]->timed_out() ? Outcome::late : Outcome::broken;
    give_back(i, std::move(links[i]), outcome);
  }
  std::vector<bool> known(ask.keys.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (links[i] == nullptr) continue;
    metrics_.asked.add(static_cast<double>(ask.keys.size()));
    const auto answer = links[i]->read_frame(deadline);
    std::optional<std::vector<bool>> have;
    if (answer && answer->head.type == PeerFrameType::have && answer->head.number == number)
      have = parse_have(answer->payload, ask.keys.size());
    const Outcome outcome = have                               ? Outcome::hit
                            : !answer && links[i]->timed_out() ? Outcome::late
                                                               : Outcome::broken;
    give_back(i, std::move(links[i]), outcome);
    for (std::size_t k = 0; have && k < known.size(); ++k) {
      if (!(*have)[k] || known[k]) continue;
      known[k] = true;
      remember(ask.keys[k], i);
      found.push_back(ask.keys[k]);
    }
  }
}

bool PeerTier::fetch(const TierRow& row, std::span<std::byte> bytes) {
  if (row.tokens.empty() || row.tokens.size() > kMaxPeerTokens) return false;
  std::size_t peer = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto it = places_.find(row.key);
    if (it == places_.end()) return false;
    peer = it->second.peer;
    places_.erase(it);
  }
  std::unique_ptr<PeerLink> link = borrow(peer);
  if (link == nullptr) return false;
  const Outcome outcome = fetch_over(*link, row, bytes);
  give_back(peer, std::move(link), outcome);
  if (outcome == Outcome::hit) {
    metrics_.hits.add();
    metrics_.bytes_read.add(static_cast<double>(bytes.size()));
  } else if (outcome == Outcome::lost) {
    metrics_.misses.add();
  }
  return outcome == Outcome::hit;
}

PeerTier::Outcome PeerTier::fetch_over(PeerLink& link, const TierRow& row, std::span<std::byte> bytes) {
  const TimeNs deadline = clock_.now() + kFetch;
  const std::uint32_t number = next_number();
  const auto failure = [&link] { return link.timed_out() ? Outcome::late : Outcome::broken; };
  if (!link.write(encode_fetch(number, {.key = row.key, .tokens = row.tokens}), deadline)) return failure();
  const auto answer = link.read_frame(deadline);
  if (!answer) return failure();
  if (answer->head.number != number) return Outcome::broken;
  if (answer->head.type == PeerFrameType::lost) return Outcome::lost;
  if (answer->head.type != PeerFrameType::row || answer->head.size != kPeerRowHead + bytes.size())
    return Outcome::broken;
  std::uint64_t checksum = 0;
  if (!link.read(std::as_writable_bytes(std::span(&checksum, 1)), deadline) || !link.read(bytes, deadline))
    return failure();
  return peer_row_checksum(row.key, row.tokens, bytes) == checksum ? Outcome::hit : Outcome::broken;
}

Status PeerTier::erase(const TierErase& what) {
  const std::lock_guard lock(mutex_);
  for (const TierKey& key : what.keys) places_.erase(key);
  return ok_status();
}

void PeerTier::erase_all() {
  const std::lock_guard lock(mutex_);
  places_.clear();
}

}  // namespace pagoda
