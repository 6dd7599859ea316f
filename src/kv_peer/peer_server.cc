#include "kv_peer/peer_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr TimeNs kGreeting = 5 * kSecond;   // until a connection is authenticated and has sent its hello
constexpr TimeNs kSilence = 600 * kSecond;  // between requests
constexpr TimeNs kFrame = 10 * kSecond;     // from the first byte of a request to the last byte of its answer
constexpr TimeNs kMostPatience = 10 * kSecond;

}  // namespace

PeerServer::Metrics::Metrics(MetricsRegistry& r)
    : connections(r.gauge("pagoda:kv_peer_served_connections", "Number of connections from other servers.")),
      blocks(r.counter("pagoda:kv_peer_served_blocks", "Number of blocks given to other servers.")),
      bytes(r.counter("pagoda:kv_peer_served_bytes", "Bytes of K/V given to other servers.")),
      refused(
          r.counter("pagoda:kv_peer_refused_connections",
                    "Number of connections of servers without the secret, with another model or build, or "
                    "beyond the limit.")) {}

Result<std::unique_ptr<PeerServer>> PeerServer::open(PeerServerConfig config, MetricsRegistry& metrics) {
  if (config.secret == nullptr && !is_loopback(config.listen))
    return invalid_argument(concat("others than this machine could connect to ", text_of(config.listen),
                                   ": it needs \"secret_file\" in kv_connector_extra_config"));
  auto listener = listen_for_peers(config.listen);
  if (!listener) return listener.error();
  return std::unique_ptr<PeerServer>(new PeerServer(std::move(config), *listener, metrics));
}

PeerServer::PeerServer(PeerServerConfig config, PeerListener listener, MetricsRegistry& metrics)
    : config_(std::move(config)),
      fd_(listener.fd),
      port_(listener.port),
      metrics_(metrics),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  CHECK(wake_ >= 0);
}

PeerServer::~PeerServer() {
  ending_ = true;
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  close(wake_);
  close(fd_);
}

void PeerServer::serve(KvRowSource& source) {
  thread_ = std::thread([this, &source] { accept_all(source); });
}

void PeerServer::accept_all(KvRowSource& source) {
  while (!ending_) {
    reap(false);
    pollfd entries[] = {{.fd = fd_, .events = POLLIN, .revents = 0},
                        {.fd = wake_, .events = POLLIN, .revents = 0}};
    constexpr int kReapEveryMs = 1000;
    if (poll(entries, 2, kReapEveryMs) <= 0 || entries[0].revents == 0) continue;
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) continue;
    reap(false);
    if (connections_.size() >= kMaxConnections) {
      metrics_.refused.add();
      close(fd);
      continue;
    }
    auto link = PeerLink::accepted(fd, config_.secret.get());
    if (link == nullptr) continue;
    Connection& connection = connections_.emplace_back();
    connection.link = std::move(link);
    connection.thread = std::thread([this, &source, &connection] {
      talk(*connection.link, source);
      connection.link->interrupt();
      connection.ended = true;
    });
  }
  reap(true);
}

void PeerServer::reap(bool all) {
  if (all)
    for (Connection& connection : connections_) connection.link->interrupt();
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (!all && !it->ended) {
      ++it;
      continue;
    }
    it->thread.join();
    it = connections_.erase(it);
  }
  metrics_.connections.set(static_cast<double>(connections_.size()));
}

void PeerServer::talk(PeerLink& link, KvRowSource& source) {
  if (!greet(link)) {
    if (!ending_) metrics_.refused.add();
    return;
  }
  std::vector<std::byte> row;  // grows to the largest requested row
  while (!ending_ && link.wait_for_more(clock_.now() + kSilence)) {
    const auto frame = link.read_frame(clock_.now() + kFrame);
    if (!frame || !answer(link, source, *frame, row)) return;
  }
}

bool PeerServer::greet(PeerLink& link) {
  const TimeNs deadline = clock_.now() + kGreeting;
  if (!link.handshake(deadline)) return false;
  const auto frame = link.read_frame(deadline);
  if (!frame || frame->head.type != PeerFrameType::hello) return false;
  const auto hello = parse_hello(frame->payload);
  if (!hello) return false;
  if (hello->fingerprint == config_.fingerprint)
    return link.write(encode_empty(PeerFrameType::welcome, frame->head.number), deadline);
  (void)link.write(
      encode_refused(frame->head.number, "it computes other bits: another model, build, CPU level or flags"),
      deadline);
  return false;
}

bool PeerServer::answer(PeerLink& link, KvRowSource& source, const PeerLink::Frame& frame,
                        std::vector<std::byte>& row) {
  switch (frame.head.type) {
    case PeerFrameType::ask:
      return answer_ask(link, source, frame);
    case PeerFrameType::fetch:
      return answer_fetch(link, source, frame, row);
    default:
      return false;
  }
}

bool PeerServer::answer_ask(PeerLink& link, KvRowSource& source, const PeerLink::Frame& frame) {
  const auto ask = parse_ask(frame.payload);
  if (!ask) return false;
  const TimeNs now = clock_.now();
  const TimeNs patience = std::min(TimeNs{ask->patience_ms} * kMs, kMostPatience);
  const std::vector<bool> have =
      source.has({.keys = ask->keys,
                  .deadline = now + patience,
                  .hold_until = now + patience + static_cast<TimeNs>(config_.lease_s * 1e9)});
  return link.write(encode_have(frame.head.number, have), clock_.now() + kFrame);
}

bool PeerServer::answer_fetch(PeerLink& link, KvRowSource& source, const PeerLink::Frame& frame,
                              std::vector<std::byte>& row) {
  auto fetch = parse_fetch(frame.payload);
  if (!fetch || std::cmp_greater_equal(fetch->key.group, config_.row_bytes.size())) return false;
  const TimeNs deadline = clock_.now() + kFrame;
  const std::size_t size = config_.row_bytes[static_cast<std::size_t>(fetch->key.group)];
  if (row.size() < size) row.resize(size);
  const std::span<std::byte> bytes = std::span(row).first(size);
  if (!source.read({.key = fetch->key, .tokens = fetch->tokens}, bytes))
    return link.write(encode_empty(PeerFrameType::lost, frame.head.number), deadline);
  const std::uint64_t checksum = peer_row_checksum(fetch->key, fetch->tokens, bytes);
  if (!link.write(encode_row_head(frame.head.number, checksum, size), deadline) ||
      !link.write(bytes, deadline))
    return false;
  metrics_.blocks.add();
  metrics_.bytes.add(static_cast<double>(size));
  return true;
}

}  // namespace pagoda
