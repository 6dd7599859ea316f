// The publisher against a subscriber and a replay client on the same library.
#include "kv_events/event_publisher.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace pagoda {
namespace {

class Publishing : public ::testing::Test {
 protected:
  void SetUp() override {
    auto zmq = ZmqLibrary::open();
    if (!zmq) GTEST_SKIP() << zmq.error().message();
    zmq_ = *zmq;
    const std::string base = "ipc://" + ::testing::TempDir() + "pagoda_kv_" + std::to_string(getpid());
    config_ = {.enabled = true,
               .endpoint = base + "_pub",
               .replay_endpoint = base + "_replay",
               .buffer_steps = 5,
               .topic = "kv"};
    context_ = zmq_->ctx_new();
  }
  void TearDown() override {
    if (zmq_ == nullptr) return;
    subscriber_ = {};
    asker_ = {};
    publisher_.reset();
    zmq_->ctx_term(context_);
  }
  void start() {
    auto made = KvEventPublisher::create(config_, 2, {"CPU", "DISK"}, metrics_);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    publisher_ = *std::move(made);
    subscriber_ = *ZmqSocket::create(*zmq_, context_, ZMQ_SUB, 1000);
    zmq_->setsockopt(subscriber_.get(), ZMQ_SUBSCRIBE, "kv", 2);
    ASSERT_TRUE(subscriber_.connect(config_.endpoint).ok());
    asker_ = *ZmqSocket::create(*zmq_, context_, ZMQ_DEALER, 1000);
    ASSERT_TRUE(asker_.connect(config_.replay_endpoint).ok());
  }
  // Until it has arrived; what was sent before a subscriber is known is not for it.
  void subscribe() {
    for (int i = 0; i < 400; ++i) {
      publisher_->on_cleared();
      publisher_->end_step();
      if (!message(subscriber_, 50).empty()) return;
    }
    FAIL() << "no subscription";
  }
  std::vector<std::string> message(ZmqSocket& socket, long timeout_ms = 20'000) {
    zmq_pollitem_t item{.socket = socket.get(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0};
    std::vector<std::string> frames;
    if (zmq_->poll(&item, 1, timeout_ms) <= 0) return frames;
    do {
      char frame[4096];
      const int size = socket.receive(frame, sizeof frame);
      if (size < 0) break;
      frames.emplace_back(frame, static_cast<std::size_t>(size));
    } while (socket.more());
    return frames;
  }
  static std::int64_t number(const std::string& frame) {
    std::uint64_t out = 0;
    for (const char c : frame) out = out << 8 | static_cast<unsigned char>(c);
    return static_cast<std::int64_t>(out);
  }
  std::vector<std::int64_t> replay(std::string from) {
    EXPECT_TRUE(asker_.send("", true) && asker_.send(from, false));
    std::vector<std::int64_t> numbers;
    for (;;) {
      const std::vector<std::string> frames = message(asker_);
      if (frames.size() != 3) {
        ADD_FAILURE() << "no end of the replay";
        return numbers;
      }
      numbers.push_back(number(frames[1]));
      if (frames[2].empty()) return numbers;
    }
  }

  const ZmqLibrary* zmq_ = nullptr;
  void* context_ = nullptr;
  KvEventsConfig config_;
  MetricsRegistry metrics_;
  std::unique_ptr<KvEventPublisher> publisher_;
  ZmqSocket subscriber_, asker_;
};

TEST_F(Publishing, BatchesInOrderWithTopicAndNumber) {
  start();
  subscribe();
  BlockHasher hasher("m");
  const BlockHash root = hasher.root(""), first = hasher.next(root, std::vector<TokenId>{1, 2}),
                  second = hasher.next(first, std::vector<TokenId>{3, 4});
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  publisher_->on_stored({.hash = first, .tokens = std::span(tokens).first(2)});
  publisher_->on_stored({.hash = second, .parent = &first, .tokens = std::span(tokens).last(2)});
  publisher_->on_tier_stored(1, first);
  publisher_->on_tier_stored(1, second);
  publisher_->on_tier_removed(0, first);
  publisher_->on_removed(second);
  publisher_->on_removed(first);
  publisher_->end_step();
  publisher_->end_step();  // nothing has happened: nothing is sent
  publisher_->on_cleared();
  publisher_->end_step();
  std::vector<std::string> frames = message(subscriber_);
  std::int64_t before = -1;
  while (frames.size() == 3 && frames[2].find("BlockStored") == std::string::npos) {  // frames of subscribe()
    before = number(frames[1]);
    frames = message(subscriber_);
  }
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0], "kv");
  if (before >= 0) EXPECT_EQ(number(frames[1]), before + 1);
  const std::uint64_t one = external_hash(first), two = external_hash(second);
  const std::string expected = encode({.number = 0,
                                       .unix_seconds = 0,
                                       .events = {{.kind = CacheEvent::Kind::stored,
                                                   .hashes = {one, two},
                                                   .parent = {},
                                                   .salt = {},
                                                   .tokens = {1, 2, 3, 4}},
                                                  {.kind = CacheEvent::Kind::stored,
                                                   .hashes = {one, two},
                                                   .parent = {},
                                                   .salt = {},
                                                   .tokens = {},
                                                   .medium = "DISK"},
                                                  {.kind = CacheEvent::Kind::removed,
                                                   .hashes = {one},
                                                   .parent = {},
                                                   .salt = {},
                                                   .tokens = {},
                                                   .medium = "CPU"},
                                                  {.kind = CacheEvent::Kind::removed,
                                                   .hashes = {two, one},
                                                   .parent = {},
                                                   .salt = {},
                                                   .tokens = {}}}},
                                      2);
  EXPECT_EQ(frames[2].substr(10), expected.substr(10)) << "but for the time";
  const std::vector<std::string> next = message(subscriber_);
  ASSERT_EQ(next.size(), 3u);
  EXPECT_EQ(number(next[1]), number(frames[1]) + 1);
}

TEST_F(Publishing, TheLatestBatchesComeAgain) {
  start();
  for (int i = 0; i < 8; ++i) {
    publisher_->on_cleared();
    publisher_->end_step();
  }
  // The thread may not have sent all yet: ask until it has.
  std::vector<std::int64_t> all;
  for (int i = 0; i < 1000 && (all.size() < 2 || all[all.size() - 2] != 7); ++i)
    all = replay(std::string(8, '\0'));
  EXPECT_EQ(all, (std::vector<std::int64_t>{3, 4, 5, 6, 7, -1})) << "of the last five";
  std::string six(8, '\0');
  six[7] = 6;
  EXPECT_EQ(replay(six), (std::vector<std::int64_t>{6, 7, -1}));
}

TEST_F(Publishing, WhatIsNoRequestIsIgnored) {
  start();
  for (const std::string& wrong : {std::string("x"), std::string(9, '\0'), std::string(100'000, 'x')})
    EXPECT_TRUE(asker_.send("", true) && asker_.send(wrong, false));
  EXPECT_TRUE(asker_.send("only one frame", false));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(asker_.send("many", i < 9));
  EXPECT_EQ(replay(std::string(8, '\0')), std::vector<std::int64_t>{-1});
}

TEST_F(Publishing, AnEndpointThatCannotBeIsRefused) {
  config_.endpoint = "tcp://*:notaport";
  EXPECT_EQ(KvEventPublisher::create(config_, 2, {"CPU", "DISK"}, metrics_).error().code(),
            StatusCode::invalid_argument);
}

}  // namespace
}  // namespace pagoda
