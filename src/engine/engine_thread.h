#pragma once
// EngineThread: the only thread that owns the engine, and the access to it. Other threads submit and abort
// through a bounded inbox; when idle, the thread sleeps on that inbox and uses no CPU.
//
//     serving --begin_drain--> draining (nothing new is taken) --stop--> stopped
//     serving or draining --the runner fails--> dead: every sink gets an error, healthy() is false
//
// Invariant: a request that submit() accepted gets exactly one finished output, whatever happens.
// Threads: all public functions are safe from any thread; outputs are delivered on the engine thread and, at
// the very end of stop(), on the caller's.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "base/bounded_queue.h"
#include "engine/admission_gate.h"
#include "engine/client.h"
#include "engine/engine_core.h"
#include "engine/live_feed.h"
#include "engine/stats_log.h"

namespace pagoda {

class EngineThread final : public EngineClient {
 public:
  // Starts the thread. At most `config.max_waiting` requests wait for admission.
  EngineThread(const EngineConfig& config, std::unique_ptr<EngineCore> core);
  ~EngineThread() override;  // stop()

  const EngineLimits& limits() const override { return core_->limits(); }
  Status submit(Request request, std::shared_ptr<OutputSink> sink) override;
  std::optional<Refusal> refuse_unread(std::string_view tenant) override;
  double expected_wait(std::string_view tenant, std::int32_t priority) const override;
  void abort(RequestId id) override;
  void abort_sequence(RequestId id, std::int32_t index) override;
  void snapshot(SnapshotDone done) override;
  void live_state(std::int64_t seen, LiveDone done) override;
  void live_every_step(bool wanted) override;
  Status add_prefix(std::string name, std::vector<TokenId> tokens, std::shared_ptr<OutputSink> sink) override;
  std::vector<PrefixInfo> list_prefixes() const override { return core_->prefixes().list(); }
  Status drop_prefix(const std::string& name) override;
  void sleep(const SleepOrder& order, ControlDone done) override;
  void wake_up(const WakeOrder& order, ControlDone done) override;
  bool is_sleeping() const override { return sleeping_.load(std::memory_order_acquire); }
  void reset_prefix_cache(ControlDone done) override;
  void erase_cached(const CacheOwner& owner, ControlDone done) override;
  bool healthy() const override { return !dead_.load(std::memory_order_acquire); }
  Status failure() const override;

  // For a watchdog: nullopt while the thread waits for work; otherwise a number that changes with each turn
  // of its loop and with each piece of work given to compute threads.
  std::optional<std::uint64_t> beat() const;
  // Declares the loop stuck: refuses new requests from now on, and healthy() becomes false.
  void give_up() { die(unavailable("it makes no progress")); }

  // Refuses new requests from now on; accepted ones continue.
  void begin_drain() { draining_.store(true, std::memory_order_release); }
  // Returns true if all accepted requests end within `timeout`.
  bool wait_idle(std::chrono::milliseconds timeout);
  // Aborts all remaining requests and ends the thread. Idempotent.
  void stop();

 private:
  struct Submit {
    Request request;
    std::shared_ptr<OutputSink> sink;
  };
  struct Abort {
    RequestId id;
  };
  struct AbortSequence {
    RequestId id;
    std::int32_t index;
  };
  struct Snapshot {
    SnapshotDone done;
  };
  struct Live {
    std::int64_t seen;
    LiveDone done;
  };
  struct LiveEveryStep {
    bool wanted;
  };
  struct AddPrefix {
    std::string name;
    std::vector<TokenId> tokens;
    std::shared_ptr<OutputSink> sink;
  };
  struct DropPrefix {
    std::string name;
  };
  struct Sleep {
    SleepOrder order;
    ControlDone done;
  };
  struct WakeUp {
    WakeOrder order;
    ControlDone done;
  };
  struct ResetCache {
    ControlDone done;
  };
  struct EraseCached {
    CacheOwner owner;
    ControlDone done;
  };
  struct TierNews {};  // a step would process tier news
  using Message = std::variant<Submit, Abort, AbortSequence, Snapshot, Live, LiveEveryStep, AddPrefix,
                               DropPrefix, Sleep, WakeUp, ResetCache, EraseCached, TierNews>;

  void loop();
  void die(const Status& failure);
  void serve();
  bool wait_for_work();
  void handle(Message&& message);
  void publish_progress();
  Status accept(Message message, std::int64_t max_waiting);
  void fail(RequestId id, OutputSink& sink, const Status& error);
  void refuse(Message& message, const Status& error);
  // In engine_thread_sleep.cc.
  bool handle_control(Message& message);
  bool hold_back(Message& message);
  void begin_sleep(Sleep&& sleep);
  void fall_asleep();
  void hand_over_held();
  void end_late_held();
  void ask_live(Live&& live);
  void answer_live();
  void keep_live_state();

  const EngineConfig config_;
  std::unique_ptr<EngineCore> core_;
  const std::string name_;  // for the log
  BoundedQueue<Message> inbox_;
  AdmissionGate gate_;
  std::int64_t num_taken_ = 0;  // requests taken out of the inbox
  bool ran_ = true;             // the last step had work; otherwise all that is left waits for tiers
  std::atomic<bool> draining_{false}, dead_{false}, stopping_{false};
  mutable std::mutex failure_mutex_;
  Status failure_;  // why the engine died; ok while it is alive
  std::atomic<bool> busy_{true};
  std::atomic<std::uint64_t> num_turns_{0};
  std::atomic<std::uint64_t> num_beats_{0};    // pieces of work given to compute threads
  std::atomic<std::int64_t> num_accepted_{0};  // requests accepted by submit()
  std::atomic<std::int64_t> num_started_{0};   // admitted for the first time, or ended before
  std::atomic<std::int64_t> num_ended_{0};     // ended
  std::int64_t num_refused_late_ = 0;          // accepted by submit(), then refused by the core
  std::mutex idle_mutex_, stop_mutex_;
  std::condition_variable idle_;

  // While the engine is about to sleep but still finishes its work: the order, and the messages that arrive
  // meanwhile. Bounded like the inbox.
  std::optional<Sleep> falling_asleep_;
  std::vector<Message> held_;
  std::atomic<bool> sleeping_{false};

  // While there are live views: the feed of steps, pending calls, unfetched snapshots and their bytes, and
  // the time of the last call.
  std::unique_ptr<LiveFeed> live_;
  std::vector<Live> live_asks_;
  LiveStates live_states_;
  std::size_t live_bytes_ = 0;
  std::int64_t live_step_ = -1;  // step of the last snapshot
  bool live_changed_ = false, live_every_step_ = false;
  TimeNs live_requested_at_ = 0;

  StatsLog stats_log_;
  SteadyClock wall_;  // for the log line and live views only
  std::thread thread_;
};

}  // namespace pagoda
