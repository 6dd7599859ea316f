// Goal: rows go from one server to another over real sockets, with and without a secret; and a peer that is
// absent, foreign, without the secret, slow, cut off or wrong gives no row and no wait. Method: a PeerServer
// over rows in memory, and listeners that say what they like.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>

#include "kv_peer/peer_server.h"
#include "kv_peer/peer_tier.h"

namespace pagoda {
namespace {

constexpr std::size_t kRowBytes = 300'000;
constexpr KvDigest kFingerprint{1, 2, 3, 4};

TierKey key(std::uint64_t name) { return {.chain = {name, 0, 0, 0}, .group = 0}; }
TierRow row(std::uint64_t name) { return {.key = key(name), .tokens = {static_cast<TokenId>(name), 7}}; }
std::vector<std::byte> content(std::uint64_t name) {
  std::vector<std::byte> out(kRowBytes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>((i * 7 + name) & 0xff);
  return out;
}

class Rows final : public KvRowSource {
 public:
  explicit Rows(std::vector<std::uint64_t> names) {
    for (const std::uint64_t name : names) names_[name] = true;
  }
  std::vector<bool> has(const Question& question) override {
    held_for = question.hold_until - SteadyClock().now();
    std::vector<bool> out;
    for (const TierKey& key : question.keys) out.push_back(names_.contains(key.chain[0]));
    return out;
  }
  bool read(const TierRow& row, std::span<std::byte> bytes) override {
    const std::uint64_t name = row.key.chain[0];
    if (lost || !names_.contains(name) || row.tokens != ::pagoda::row(name).tokens ||
        bytes.size() != kRowBytes)
      return false;
    std::ranges::copy(content(name), bytes.begin());
    return true;
  }
  std::atomic<bool> lost = false;
  std::atomic<TimeNs> held_for = 0;

 private:
  static TierRow row(std::uint64_t name) { return ::pagoda::row(name); }
  std::map<std::uint64_t, bool> names_;
};

std::shared_ptr<const PeerSecret> secret_of(const char* text) {
  return text == nullptr ? nullptr : std::shared_ptr<const PeerSecret>(*PeerSecret::from_text(text));
}
constexpr const char* kSecret = "a secret of some length\n";

void wait_until(const std::function<bool()>& is_so) {
  for (int i = 0; i < 6000 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(is_so());
}

struct Serving {
  explicit Serving(std::vector<std::uint64_t> names, const char* secret = kSecret,
                   KvDigest fingerprint = kFingerprint)
      : rows(std::move(names)) {
    auto opened = PeerServer::open({.listen = {.host = "127.0.0.1"},
                                    .secret = secret_of(secret),
                                    .fingerprint = fingerprint,
                                    .row_bytes = {kRowBytes},
                                    .lease_s = 20},
                                   metrics);
    EXPECT_TRUE(opened);
    server = *std::move(opened);
    server->serve(rows);
  }
  double counted(const char* name) { return metrics.counter(name, "").value(); }
  MetricsRegistry metrics;
  Rows rows;
  std::unique_ptr<PeerServer> server;
};

struct Fetching {
  explicit Fetching(std::vector<std::uint16_t> ports, const char* secret = kSecret) {
    std::vector<PeerAddress> peers;
    for (const std::uint16_t port : ports) peers.push_back({.host = "127.0.0.1", .port = port});
    auto opened =
        PeerTier::open({.peers = peers, .secret = secret_of(secret), .fingerprint = kFingerprint}, metrics);
    EXPECT_TRUE(opened);
    tier = *std::move(opened);
  }
  void wait_for_peers(int count) {
    wait_until([&] { return metrics.gauge("pagoda:kv_peer_connected", "").value() == count; });
  }
  std::vector<TierKey> ask(std::vector<TierKey> keys, double seconds = 20) {
    std::vector<TierKey> found;
    TierAsk question{.keys = std::move(keys), .patience_s = seconds};
    tier->ask(question, SteadyClock().now() + static_cast<TimeNs>(seconds * 1e9), found);
    return found;
  }
  double counted(const char* name) { return metrics.counter(name, "").value(); }
  MetricsRegistry metrics;
  std::unique_ptr<PeerTier> tier;
};

class WithSecret : public ::testing::TestWithParam<const char*> {};

TEST_P(WithSecret, RowsComeAsTheyAre) {
  Serving serving({1, 2, 3}, GetParam());
  Fetching fetching({serving.server->port()}, GetParam());
  fetching.wait_for_peers(1);
  EXPECT_EQ(fetching.ask({key(1), key(9), key(3)}), (std::vector{key(1), key(3)}));
  EXPECT_GT(serving.rows.held_for, 20 * kSecond - 5 * kSecond) << "a lease";
  EXPECT_TRUE(fetching.tier->lookup(key(1)));
  EXPECT_FALSE(fetching.tier->lookup(key(9)));
  std::vector<std::byte> bytes(kRowBytes);
  EXPECT_TRUE(fetching.tier->fetch(row(1), bytes));
  EXPECT_EQ(bytes, content(1));
  EXPECT_TRUE(fetching.tier->fetch(row(3), bytes));
  EXPECT_EQ(bytes, content(3));
  EXPECT_FALSE(fetching.tier->fetch(row(2), bytes)) << "nobody has asked for it";
  EXPECT_EQ(fetching.counted("pagoda:kv_peer_hits"), 2);
  EXPECT_EQ(fetching.counted("pagoda:kv_peer_read_bytes"), 2 * kRowBytes);
  wait_until([&] { return serving.counted("pagoda:kv_peer_served_blocks") == 2; });
  EXPECT_EQ(fetching.counted("pagoda:kv_peer_errors"), 0);
}
INSTANTIATE_TEST_SUITE_P(, WithSecret, ::testing::Values(kSecret, nullptr),
                         [](const auto& info) { return info.param == nullptr ? "Without" : "With"; });

TEST(Peers, ARowThatIsGoneIsLostAndTheConnectionGoesOn) {
  Serving serving({1, 2});
  Fetching fetching({serving.server->port()});
  fetching.wait_for_peers(1);
  ASSERT_EQ(fetching.ask({key(1), key(2)}).size(), 2u);
  serving.rows.lost = true;
  std::vector<std::byte> bytes(kRowBytes);
  EXPECT_FALSE(fetching.tier->fetch(row(1), bytes));
  EXPECT_FALSE(fetching.tier->lookup(key(1)));
  serving.rows.lost = false;
  TierRow other = row(2);
  other.tokens.back() = 8;
  EXPECT_FALSE(fetching.tier->fetch(other, bytes)) << "other tokens";
  ASSERT_EQ(fetching.ask({key(2)}).size(), 1u);
  EXPECT_TRUE(fetching.tier->fetch(row(2), bytes));
  EXPECT_EQ(fetching.counted("pagoda:kv_peer_misses"), 2);
  EXPECT_EQ(fetching.counted("pagoda:kv_peer_errors"), 0);
}

TEST(Peers, AllAreAskedAndOneThatIsAbsentCostsNothing) {
  Serving one({1}), other({2, 3});
  const PeerListener closed = *listen_for_peers({.host = "127.0.0.1"});
  ::close(closed.fd);
  Fetching fetching({closed.port, one.server->port(), other.server->port()});
  fetching.wait_for_peers(2);
  EXPECT_EQ(fetching.ask({key(1), key(2), key(4)}), (std::vector{key(1), key(2)}));
  std::vector<std::byte> bytes(kRowBytes);
  EXPECT_TRUE(fetching.tier->fetch(row(2), bytes));
  EXPECT_EQ(bytes, content(2));
  other.server.reset();
  fetching.wait_for_peers(1);
  EXPECT_EQ(fetching.ask({key(1), key(3)}), std::vector{key(1)});
}

TEST(Peers, WhoeverHasAnotherSecretOrComputesOtherBitsIsRefused) {
  Serving serving({1});
  Fetching other({serving.server->port()}, "another secret of some length");
  Fetching none({serving.server->port()}, nullptr);
  Serving foreign({1}, kSecret, KvDigest{9});
  Fetching fetching({foreign.server->port()});
  wait_until([&] {
    return serving.counted("pagoda:kv_peer_refused_connections") >= 2 &&
           foreign.counted("pagoda:kv_peer_refused_connections") >= 1;
  });
  for (Fetching* const each : {&other, &none, &fetching}) {
    EXPECT_TRUE(each->ask({key(1)}, 0.5).empty());
    EXPECT_EQ(each->metrics.gauge("pagoda:kv_peer_connected", "").value(), 0);
  }
}

TEST(Peers, OthersThanThisMachineNeedASecret) {
  MetricsRegistry metrics;
  EXPECT_FALSE(PeerServer::open({.listen = {.host = "0.0.0.0"}}, metrics));
  EXPECT_FALSE(PeerTier::open({.peers = {{.host = "10.1.2.3", .port = 1}}}, metrics));
  EXPECT_FALSE(PeerSecret::from_text("  short \n"));
  EXPECT_TRUE(PeerServer::open({.listen = {.host = "0.0.0.0"}, .secret = secret_of(kSecret)}, metrics));
}

// A peer without a secret that greets whoever comes, and then sends what it is told to, whatever it is asked.
class Liar {
 public:
  explicit Liar(std::function<std::vector<std::byte>(const PeerLink::Frame&)> answer)
      : listener_(*listen_for_peers({.host = "127.0.0.1"})), answer_(std::move(answer)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Liar() {
    ending_ = true;
    thread_.join();
    ::close(listener_.fd);
  }
  std::uint16_t port() const { return listener_.port; }

 private:
  void run() {
    std::vector<std::thread> talks;
    while (!ending_) {
      pollfd entry{.fd = listener_.fd, .events = POLLIN, .revents = 0};
      if (poll(&entry, 1, 20) <= 0) continue;
      const int fd = accept4(listener_.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) talks.emplace_back([this, fd] { talk(*PeerLink::accepted(fd, nullptr)); });
    }
    for (std::thread& talk : talks) talk.join();
  }
  void talk(PeerLink& link) {
    const auto deadline = [] { return SteadyClock().now() + 20 * kSecond; };
    while (!ending_) {
      if (!link.wait_for_more(SteadyClock().now() + kSecond / 50)) continue;
      const auto frame = link.read_frame(deadline());
      if (!frame) return;
      const std::vector<std::byte> said = frame->head.type == PeerFrameType::hello
                                              ? encode_empty(PeerFrameType::welcome, frame->head.number)
                                              : answer_(*frame);
      if (said.empty() || !link.write(said, deadline())) return;
    }
  }
  const PeerListener listener_;
  const std::function<std::vector<std::byte>(const PeerLink::Frame&)> answer_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

TEST(Peers, WrongAnswersGiveNoRow) {
  using Frame = PeerLink::Frame;
  using Bytes = std::vector<std::byte>;
  const auto whole_row = [](const Frame& frame) {
    const auto fetch = parse_fetch(frame.payload);
    const Bytes bytes = content(fetch->key.chain[0]);
    Bytes out =
        encode_row_head(frame.head.number, peer_row_checksum(fetch->key, fetch->tokens, bytes), kRowBytes);
    out.insert(out.end(), bytes.begin(), bytes.end());
    return out;
  };
  Bytes replayed;
  const std::pair<const char*, std::function<Bytes(const Frame&)>> lies[] = {
      {"a flipped bit",
       [&](const Frame& f) {
         Bytes b = whole_row(f);
         b.back() ^= std::byte{1};
         return b;
       }},
      {"the row of another key",
       [&](const Frame& f) {
         Bytes b = whole_row(f);
         std::ranges::copy(content(8), b.end() - kRowBytes);
         return b;
       }},
      {"another number",
       [&](const Frame& f) {
         Bytes b = whole_row(f);
         b[8] ^= std::byte{1};
         return b;
       }},
      {"an answer of before",
       [&](const Frame& f) {
         if (replayed.empty()) replayed = whole_row(f);
         return replayed;
       }},
      {"another size", [&](const Frame& f) { return encode_row_head(f.head.number, 1, kRowBytes - 1); }},
      {"a gigabyte", [&](const Frame& f) { return encode_row_head(f.head.number, 1, kMaxPeerRow); }},
      {"no frame", [](const Frame&) { return Bytes(64, std::byte{0x41}); }},
      {"another type", [](const Frame& f) { return encode_have(f.head.number, {true}); }},
      {"the end", [](const Frame&) { return Bytes(); }},
  };
  for (const auto& [name, lie] : lies) {
    SCOPED_TRACE(name);
    replayed.clear();
    const Liar liar([&lie = lie](const Frame& frame) {
      if (frame.head.type != PeerFrameType::ask) return lie(frame);
      return encode_have(frame.head.number, std::vector<bool>(parse_ask(frame.payload)->keys.size(), true));
    });
    Fetching fetching({liar.port()}, nullptr);
    fetching.wait_for_peers(1);
    ASSERT_EQ(fetching.ask({key(1), key(2)}).size(), 2u);
    Bytes bytes(kRowBytes);
    const bool first = fetching.tier->fetch(row(1), bytes);
    EXPECT_EQ(first, std::string_view(name) == "an answer of before") << "the first is none of before";
    fetching.wait_for_peers(1);
    if (first) {
      EXPECT_FALSE(fetching.tier->fetch(row(2), bytes));
    }
    EXPECT_EQ(fetching.counted("pagoda:kv_peer_errors"), 1);
  }
}

TEST(Peers, WrongAnswersToAQuestionFindNothing) {
  using Frame = PeerLink::Frame;
  const std::function<std::vector<std::byte>(const Frame&)> lies[] = {
      [](const Frame& f) { return encode_have(f.head.number + 1, {true}); },
      [](const Frame& f) { return encode_have(f.head.number, std::vector<bool>(9, true)); },
      [](const Frame& f) { return encode_empty(PeerFrameType::lost, f.head.number); },
      [](const Frame&) { return std::vector<std::byte>(3, std::byte{1}); },
  };
  for (const auto& lie : lies) {
    const Liar liar(lie);
    Fetching fetching({liar.port()}, nullptr);
    fetching.wait_for_peers(1);
    EXPECT_TRUE(fetching.ask({key(1)}, 1).empty());
    EXPECT_EQ(fetching.counted("pagoda:kv_peer_errors"), 1);
  }
}

TEST(Peers, ASilentPeerIsWaitedForNoLongerThanIsAllowed) {
  std::atomic<bool> ending = false;
  const Liar silent([&](const PeerLink::Frame&) {
    while (!ending) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return std::vector<std::byte>();
  });
  Serving other({2});
  Fetching fetching({silent.port()}, nullptr);
  fetching.wait_for_peers(1);
  const TimeNs before = SteadyClock().now();
  EXPECT_TRUE(fetching.ask({key(1)}, 0.2).empty());
  EXPECT_GE(SteadyClock().now() - before, kSecond / 5);
  EXPECT_EQ(fetching.counted("pagoda:kv_peer_errors"), 1);
  // The end does not wait for it, either.
  std::thread asks([&] {
    while (fetching.counted("pagoda:kv_peer_asked_blocks") < 2)
      EXPECT_TRUE(fetching.ask({key(1)}, 3600).empty());
  });
  wait_until([&] { return fetching.counted("pagoda:kv_peer_asked_blocks") == 2; });
  fetching.tier->stop();
  asks.join();
  ending = true;
}

TEST(Peers, AServerEndsWhateverItsPeersDo) {
  Serving serving({1});
  Fetching fetching({serving.server->port()});
  fetching.wait_for_peers(1);
  const auto half = PeerLink::connect({.host = "127.0.0.1", .port = serving.server->port()}, nullptr,
                                      SteadyClock().now() + 20 * kSecond);
  ASSERT_TRUE(half);
  const std::byte some[3] = {};
  EXPECT_TRUE((*half)->write(some, SteadyClock().now() + kSecond));
  serving.server.reset();
  EXPECT_TRUE(fetching.ask({key(1)}, 1).empty());
}

}  // namespace
}  // namespace pagoda
