#pragma once
// PeerServer: gives rows of this process's tiers to other servers that have the same secret and compute the
// same bits (--kv-transfer-config, kv_producer and kv_both). Rows that it says are here are held for a while,
// so that whoever asked can fetch them. Whoever knows a row's key and its tokens has them from their text;
// keys are hashes of 256 bits over model, salt and all tokens before. Bounded: connections, what each may
// ask, and how long each may be silent, slow or not yet authenticated. Threads: one that accepts and one for
// each connection; all end with it.
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "kv_peer/peer_link.h"
#include "request/kv_row_source.h"

namespace pagoda {

struct PeerServerConfig {
  PeerAddress listen;
  std::shared_ptr<const PeerSecret> secret = {};  // null: none
  KvDigest fingerprint{};
  std::vector<std::size_t> row_bytes = {};  // by KV group
  double lease_s = 30;
};

class PeerServer final : public KvRowServer {
 public:
  // Listens from here on; whoever connects waits until serve(). invalid_argument: it cannot listen there, or
  // others than this machine could connect without a secret.
  static Result<std::unique_ptr<PeerServer>> open(PeerServerConfig config, MetricsRegistry& metrics);
  ~PeerServer() override;

  void serve(KvRowSource& source) override;
  std::uint16_t port() const { return port_; }

 private:
  static constexpr std::size_t kMaxConnections = 64;
  struct Connection {
    std::unique_ptr<PeerLink> link;
    std::thread thread;
    std::atomic<bool> ended = false;
  };
  struct Metrics {
    explicit Metrics(MetricsRegistry& registry);
    Gauge& connections;
    Counter &blocks, &bytes, &refused;
  };
  PeerServer(PeerServerConfig config, PeerListener listener, MetricsRegistry& metrics);
  void accept_all(KvRowSource& source);
  void reap(bool all);
  void talk(PeerLink& link, KvRowSource& source);
  bool greet(PeerLink& link);
  bool answer(PeerLink& link, KvRowSource& source, const PeerLink::Frame& frame, std::vector<std::byte>& row);
  bool answer_ask(PeerLink& link, KvRowSource& source, const PeerLink::Frame& frame);
  bool answer_fetch(PeerLink& link, KvRowSource& source, const PeerLink::Frame& frame,
                    std::vector<std::byte>& row);

  const PeerServerConfig config_;
  const int fd_;
  const std::uint16_t port_;
  const SteadyClock clock_;
  Metrics metrics_;
  int wake_ = -1;  // an eventfd: the end
  std::atomic<bool> ending_ = false;
  std::list<Connection> connections_;  // used by the thread that accepts alone
  std::thread thread_;
};

}  // namespace pagoda
