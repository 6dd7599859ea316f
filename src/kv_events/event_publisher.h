#pragma once
// KvEventPublisher: publishes the contents of the prefix cache to subscribers, as vLLM's ZmqEventPublisher
// does:
//     PUB      (topic, number, batch)               number: 8 bytes, big-endian, from 0
//     ROUTER   (number) -> (number, batch) … (-1, "")   replays the latest batches from there on
// The engine thread never waits: a batch that does not fit into the queue is dropped, and its number is
// skipped. Threads: the engine thread for the functions of CacheObserver; a separate thread sends. Source:
// vLLM's distributed/kv_events.py.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "kv_cache/cache_observer.h"
#include "kv_events/event_encoding.h"
#include "kv_events/kv_events_config.h"
#include "kv_events/zmq_library.h"

namespace pagoda {

class KvEventPublisher final : public CacheObserver {
 public:
  // `media`: names of the engine's tiers, fastest first. invalid_argument names an endpoint that cannot be
  // used; unavailable: ZeroMQ is not installed.
  static Result<std::unique_ptr<KvEventPublisher>> create(const KvEventsConfig& config,
                                                          std::int32_t block_size,
                                                          std::vector<std::string> media,
                                                          MetricsRegistry& metrics);
  ~KvEventPublisher() override;  // sends the queued batches

  void on_stored(const Stored& block) override;
  void on_removed(const BlockHash& hash) override { add(CacheEvent::Kind::removed, kPoolMedium, hash); }
  void on_tier_stored(std::size_t tier, const BlockHash& hash) override {
    add(CacheEvent::Kind::stored, media_[tier], hash);
  }
  void on_tier_removed(std::size_t tier, const BlockHash& hash) override {
    add(CacheEvent::Kind::removed, media_[tier], hash);
  }
  void on_cleared() override;
  void end_step() override;

 private:
  KvEventPublisher(const KvEventsConfig& config, std::int32_t block_size, std::vector<std::string> media,
                   MetricsRegistry& metrics);
  Status open();
  void add(CacheEvent::Kind kind, std::string_view medium, const BlockHash& hash);
  void send_all();
  bool take(std::vector<CacheEventBatch>& batches);
  void publish(const CacheEventBatch& batch);
  void answer_replay();

  const KvEventsConfig config_;
  const std::int32_t block_size_;
  const std::vector<std::string> media_;
  Counter& dropped_;
  std::unique_ptr<void, EndZmqContext> context_;
  ZmqSocket publish_, replay_;

  std::vector<CacheEvent> events_;  // events of the current step; engine thread only
  std::int64_t next_number_ = 0;

  std::mutex mutex_;
  std::vector<CacheEventBatch> queue_;  // guarded
  bool ending_ = false;                 // guarded
  int wake_ = -1;                       // an eventfd: signals queued batches or the end

  std::deque<std::pair<std::int64_t, std::string>> sent_;  // for replay; sending thread only
  std::thread thread_;
};

}  // namespace pagoda
