#pragma once
// PeerServer: serves rows of this process's tiers to other servers with the same secret and fingerprint
// (--kv-transfer-config, kv_producer and kv_both). Rows reported as present are held for a while, so that the
// peer can fetch them. A peer must send a row's key and tokens, which it can derive only from its own text:
// keys are 256-bit hashes over the model, the salt and all preceding tokens. Limits apply to the number of
// connections, to the size of a request, and to how long a connection may be idle, slow or unauthenticated.
// Threads: one accepts connections, and each connection has its own; all end with the server.
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
  std::shared_ptr<const PeerSecret> secret = {};  // null: no secret
  KvDigest fingerprint{};
  std::vector<std::size_t> row_bytes = {};  // by KV group
  double lease_s = 30;
};

class PeerServer final : public KvRowServer {
 public:
  // Starts to listen; connections wait until serve(). invalid_argument: cannot listen on the address, or
  // other machines could connect to it without a secret.
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
  int wake_ = -1;  // an eventfd that signals the end
  std::atomic<bool> ending_ = false;
  std::list<Connection> connections_;  // used only by the accepting thread
  std::thread thread_;
};

}  // namespace pagoda
