#pragma once
// PeerTier: other servers as a KvTier (--kv-transfer-config, kv_consumer and kv_both). It cannot list their
// rows. ask() queries all peers in parallel for the rows of a prompt and remembers which peer has which. A
// background thread keeps connections open, so that no call waits for an unreachable peer. A peer that is
// late or sends invalid data loses its connection, and is retried later. Nothing is stored at a peer. Every
// length, number and checksum of an answer is checked. There is no protection against a peer that has the
// secret but serves K/V computed differently than it claims.
// Threads: any.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "kv_peer/peer_link.h"
#include "request/kv_tier.h"

namespace pagoda {

struct PeerTierConfig {
  std::vector<PeerAddress> peers;
  std::shared_ptr<const PeerSecret> secret = {};  // null: no secret
  KvDigest fingerprint{};
};

class PeerTier final : public KvTier {
 public:
  // invalid_argument: a peer is not on this machine and there is no secret. Does not check that the peers are
  // reachable.
  static Result<std::unique_ptr<PeerTier>> open(PeerTierConfig config, MetricsRegistry& metrics);
  ~PeerTier() override;

  std::string_view medium() const override { return "REMOTE"; }
  bool lookup(const TierKey& key) const override;
  [[nodiscard]] bool fetch(const TierRow& row, std::span<std::byte> bytes) override;
  [[nodiscard]] bool store(const TierRow&, std::span<const std::byte>, std::vector<TierKey>&) override {
    return false;
  }
  Status erase(const TierErase& what) override;  // forgets their places
  void erase_all() override;
  bool is_remote() const override { return true; }
  void ask(const TierAsk& ask, TimeNs deadline, std::vector<TierKey>& found) override;
  void stop() override;

 private:
  static constexpr std::size_t kLinks = 2;            // to each peer: one for each thread that uses it
  static constexpr std::size_t kMaxPlaces = 1 << 16;  // limit on remembered rows
  struct Peer {
    PeerAddress address;
    std::vector<std::unique_ptr<PeerLink>> idle;
    std::vector<PeerLink*> in_use;
    TimeNs not_before = 0, backoff = 0;
    int num_late = 0;  // consecutive late answers
    std::string problem = {};
    std::size_t num_links() const { return idle.size() + in_use.size(); }
  };
  struct Place {
    std::size_t peer = 0;
    TimeNs until = 0;
  };
  struct Metrics {
    explicit Metrics(MetricsRegistry& registry);
    Gauge& connected;
    Counter &asked, &hits, &bytes_read, &misses, &errors;
  };
  enum class Outcome { hit, lost, late, broken };

  PeerTier(PeerTierConfig config, MetricsRegistry& metrics);
  void keep_connected();
  void drop_closed(Peer& peer);
  Result<std::unique_ptr<PeerLink>> connect(const PeerAddress& address) const;
  void connected(Peer& peer, Result<std::unique_ptr<PeerLink>> link);
  void give_back(std::size_t peer, std::unique_ptr<PeerLink> link, Outcome outcome);
  std::unique_ptr<PeerLink> borrow(std::size_t peer);
  Outcome fetch_over(PeerLink& link, const TierRow& row, std::span<std::byte> bytes);
  void remember(const TierKey& key, std::size_t peer);
  void count_connected();  // requires mutex_ to be locked
  std::uint32_t next_number();

  const PeerTierConfig config_;
  const SteadyClock clock_;
  Metrics metrics_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::unordered_map<TierKey, Place, TierKeyHasher> places_;
  std::uint32_t last_number_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pagoda
