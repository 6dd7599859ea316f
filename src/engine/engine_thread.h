#pragma once
// EngineThread: the one thread that owns the engine, and the way to it. Others submit and abort through
// a bounded inbox; idle, the thread sleeps on that inbox and uses no CPU.
//
//     serving --begin_drain--> draining (nothing new is taken) --stop--> stopped
//     serving or draining --the runner fails--> dead: every sink gets an error, healthy() is false
//
// Invariant: a request that submit() accepted gets exactly one finished output, whatever happens.
// Threads: everything public is safe from any thread; outputs are delivered on the engine thread, and at
// the very end of stop() on the caller's.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <variant>

#include "base/bounded_queue.h"
#include "engine/admission_gate.h"
#include "engine/client.h"
#include "engine/engine_core.h"

namespace pagoda {

class EngineThread final : public EngineClient {
 public:
  // Starts the thread. At most `config.max_waiting` requests wait for admission.
  EngineThread(const EngineConfig& config, std::unique_ptr<EngineCore> core);
  ~EngineThread() override;  // stop()

  const EngineLimits& limits() const override { return core_->limits(); }
  Status submit(Request request, std::shared_ptr<OutputSink> sink) override;
  double expected_wait(std::string_view tenant, std::int32_t priority) const override;
  void abort(RequestId id) override;
  void abort_sequence(RequestId id, std::int32_t index) override;
  void debug_snapshot(std::function<void(Result<DebugSnapshot>)> done) override;
  Status add_prefix(std::string name, std::vector<TokenId> tokens, std::shared_ptr<OutputSink> sink) override;
  std::vector<PrefixInfo> list_prefixes() const override { return core_->prefixes(); }
  Status drop_prefix(const std::string& name) override;
  bool healthy() const override { return !dead_.load(std::memory_order_acquire); }

  // Refuses new requests from here on; those accepted go on.
  void begin_drain() { draining_.store(true, std::memory_order_release); }
  // True when nothing is left to serve within `timeout`.
  bool wait_idle(std::chrono::milliseconds timeout);
  // Aborts what is left and ends the thread. Idempotent.
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
    std::function<void(Result<DebugSnapshot>)> done;
  };
  struct AddPrefix {
    std::string name;
    std::vector<TokenId> tokens;
    std::shared_ptr<OutputSink> sink;
  };
  struct DropPrefix {
    std::string name;
  };
  using Message = std::variant<Submit, Abort, AbortSequence, Snapshot, AddPrefix, DropPrefix>;

  void loop();
  void serve();
  bool wait_for_work();
  void handle(Message&& message);
  void publish_progress();
  Status accept(Message message);
  void fail(RequestId id, OutputSink& sink, const Status& error);
  void log_stats();

  const EngineConfig config_;
  std::unique_ptr<EngineCore> core_;
  BoundedQueue<Message> inbox_;
  AdmissionGate gate_;
  std::int64_t num_taken_ = 0;  // requests, out of the inbox
  std::atomic<bool> draining_{false}, dead_{false}, stopping_{false};
  std::atomic<std::int64_t> num_accepted_{0};  // by submit()
  std::atomic<std::int64_t> num_started_{0};   // of those, no longer waiting for their first admission
  std::atomic<std::int64_t> num_ended_{0};     // of those, ended
  std::int64_t num_refused_late_ = 0;          // accepted by submit(), refused by the core
  std::mutex idle_mutex_, stop_mutex_;
  std::condition_variable idle_;

  TimeNs last_log_ = 0;
  double logged_prompt_tokens_ = 0, logged_generation_tokens_ = 0;
  PrefixCacheStats logged_cache_;
  SteadyClock wall_;  // for the log line only
  std::thread thread_;
};

}  // namespace pagoda
