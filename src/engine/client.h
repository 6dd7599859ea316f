#pragma once
// EngineClient: the engine's interface for other threads. submit() never blocks: it fails if the inbox is
// full.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "request/engine_snapshot.h"
#include "request/request.h"
#include "request/request_output.h"

namespace pagoda {

// Receives a request's outputs, in order, until one has finished == true. Called on the engine thread: must
// hand over and return at once. Every call but the last brings a token or the end of a sequence, so the
// number of calls is bounded by best_of * (max_tokens + 1); for n = 1, by max_tokens + 1.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void on_output(RequestOutput output) = 0;
};

// The limits of this engine; fixed at startup.
struct EngineLimits {
  std::int32_t max_model_len = 0;    // prompt + output tokens of one sequence
  std::int64_t kv_cache_tokens = 0;  // token slots of the whole KV cache
  std::int32_t max_num_seqs = 0;
  std::int32_t vocab_size = 0;
};

// A prompt prefix that the provider keeps in the KV cache (§4.4).
struct PrefixInfo {
  std::string name;
  std::int32_t num_tokens = 0;
  std::int64_t num_blocks = 0;
};

// How the engine is put to sleep; terms as in vLLM.
struct SleepOrder {
  enum class Running { abort, wait, keep };
  std::int32_t level = 1;            // 0: stop computing; 1 and 2: also release memory
  Running running = Running::abort;  // treatment of requests accepted earlier
};
// The parts to wake; the engine computes again once no part is asleep.
struct WakeOrder {
  bool weights = true, kv_cache = true, scheduling = true;
};

// invalid_argument if no engine has this rank. The message is vLLM's.
Status check_rank(std::int32_t rank, std::size_t num_engines);

class EngineClient {
 public:
  virtual ~EngineClient() = default;
  virtual const EngineLimits& limits() const = 0;

  // resource_exhausted: the queue is full, or too long for this request (HTTP 429). deadline_exceeded: the
  // deadline has passed, or would be missed. invalid_argument: the request can never fit, naming the limit.
  // unavailable: the engine is draining or dead. On success `sink` gets every output, the last one finished.
  virtual Status submit(Request request, std::shared_ptr<OutputSink> sink) = 0;

  // Refuses a request of this tenant before its body is read, if every request of the tenant would be refused
  // now: resource_exhausted (the queue is too long), with the expected wait in seconds. Counts as a refusal.
  // nullopt: submit() decides. Any thread.
  struct Refusal {
    Status status;
    double wait_s = 0;
  };
  virtual std::optional<Refusal> refuse_unread(std::string_view /*tenant*/) { return std::nullopt; }

  // Seconds that a request arriving now would wait to be scheduled; for Retry-After. Any thread.
  virtual double expected_wait(std::string_view /*tenant*/, std::int32_t /*priority*/) const { return 0; }

  // Releases everything the request holds at the start of the next step. Unknown or finished ids are ignored.
  // The sink gets one last output, with finish_reason abort.
  virtual void abort(RequestId id) = 0;

  // Ends one sequence (choice) of a request, e.g. after a stop string: no more tokens are computed for it.
  // Its last delta has finish_reason abort, which the caller replaces with its own reason.
  virtual void abort_sequence(RequestId id, std::int32_t index) = 0;

  // Takes the engine's complete state between two steps. `done` is called once: on the engine thread after
  // the current step, or immediately if the engine has stopped (unavailable). It must hand over and return.
  using SnapshotDone = std::function<void(Result<std::shared_ptr<const EngineSnapshot>>)>;
  virtual void snapshot(SnapshotDone done) {
    done(Status(StatusCode::unimplemented, "This engine cannot be inspected."));
  }

  // Passes lean snapshots with the events since the last call to `done`, as soon as there is something newer
  // than step `seen` (-1: at once). `done` as above; it gets at least one snapshot, the newest last. Meant
  // for repeated calls; nothing is collected without them.
  using LiveStates = std::vector<std::shared_ptr<const EngineSnapshot>>;
  using LiveDone = std::function<void(Result<LiveStates>)>;
  virtual void live_state(std::int64_t /*seen*/, LiveDone done) {
    done(Status(StatusCode::unimplemented, "This engine cannot be inspected."));
  }
  // Sets whether live_state() returns a snapshot of each step from now on (EngineSnapshot::every_step). The
  // number of unfetched snapshots is bounded; beyond the bound, one snapshot covers several steps.
  virtual void live_every_step(bool /*wanted*/) {}

  // Computes a prefix once and pins it under `name`; prompts that start with it use its K/V from then on,
  // under any cache_salt. `sink` gets one output, finished, with the error if the prefix could not be pinned
  // (already_exists: the name is taken).
  virtual Status add_prefix(std::string, std::vector<TokenId>, std::shared_ptr<OutputSink>) {
    return unimplemented("This engine does not support shared prefixes.");
  }
  virtual std::vector<PrefixInfo> list_prefixes() const { return {}; }
  // not_found: no prefix has this name. Requests that use the prefix keep its blocks until they end.
  virtual Status drop_prefix(const std::string&) { return not_found("There is no prefix with this name."); }

  // A sleeping engine accepts requests, which wait, and computes nothing. From level 1 on, it releases the
  // memory of the weights until it wakes, and the memory of K/V that no kept request and no pinned prefix
  // needs; the prefix cache is emptied. `done` as above, called once the engine is asleep or awake.
  // unimplemented: not supported.
  using ControlDone = std::function<void(Status)>;
  virtual void sleep(const SleepOrder& /*order*/, ControlDone done) {
    done(unimplemented("This engine cannot sleep."));
  }
  // Fails if the weights cannot be loaded again; the engine then stays asleep, and the call may be repeated.
  virtual void wake_up(const WakeOrder& /*order*/, ControlDone done) {
    done(unimplemented("This engine cannot sleep."));
  }
  virtual bool is_sleeping() const { return false; }
  // Empties the prefix cache: nothing cached now is found by later requests. Running requests keep their own
  // K/V.
  virtual void reset_prefix_cache(ControlDone done) {
    done(unimplemented("This engine has no prefix cache."));
  }

  // Like reset_prefix_cache(), for the rows of this owner, including those in tiers; a 0 in `owner` matches
  // any. Running requests of the owner will leave their rows in the cache again. `done` is called on any
  // thread.
  virtual void erase_cached(const CacheOwner& /*owner*/, ControlDone done) {
    done(unimplemented("This engine has no prefix cache."));
  }

  // False once the engine thread has died (with several engines, once all have).
  virtual bool healthy() const = 0;
  // The error that stopped the engine; ok while it runs or if the reason is unknown. Any thread.
  virtual Status failure() const { return ok_status(); }
  // unavailable, with the reason, if an engine has died; /health then fails.
  virtual Status check_health() const {
    if (healthy()) return ok_status();
    const Status why = failure();
    return unavailable(why.ok() ? "The engine has stopped."
                                : concat("The engine has stopped: ", why.message()));
  }

  // The engines behind this client (engine_group.h); each can be inspected by itself.
  virtual std::size_t num_engines() const { return 1; }
  virtual EngineClient& engine(std::size_t /*rank*/) { return *this; }
};

}  // namespace pagoda
