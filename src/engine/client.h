#pragma once
// EngineClient: how other threads reach the engine. Submitting never waits: a full inbox is refused.
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

// Receives a request's outputs, in order, until one has finished == true. Called on the engine thread:
// must hand over and return at once. Every call but the last brings a token or the end of a sequence, so
// their number is bounded by best_of * (max_tokens + 1); with n = 1 by max_tokens + 1.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void on_output(RequestOutput output) = 0;
};

// The limits of this engine; fixed at start.
struct EngineLimits {
  std::int32_t max_model_len = 0;    // prompt + output tokens of one sequence
  std::int64_t kv_cache_tokens = 0;  // token slots of the whole KV cache
  std::int32_t max_num_seqs = 0;
  std::int32_t vocab_size = 0;
};

// A prompt beginning that the provider keeps in the KV cache (§4.4).
struct PrefixInfo {
  std::string name;
  std::int32_t num_tokens = 0;
  std::int64_t num_blocks = 0;
};

// How the engine is put to sleep; the words are vLLM's.
struct SleepOrder {
  enum class Running { abort, wait, keep };
  std::int32_t level = 1;            // 0: it computes nothing; 1 and 2: it gives its memory back, too
  Running running = Running::abort;  // treatment of requests accepted before
};
// The parts to wake; the engine computes again once none of them sleeps.
struct WakeOrder {
  bool weights = true, kv_cache = true, scheduling = true;
};

// invalid_argument: no engine has this rank. The message is vLLM's.
Status check_rank(std::int32_t rank, std::size_t num_engines);

class EngineClient {
 public:
  virtual ~EngineClient() = default;
  virtual const EngineLimits& limits() const = 0;

  // resource_exhausted: the queue is full, or too long for this request (HTTP 429). deadline_exceeded: its
  // time is up, or would be. invalid_argument: it can never fit, naming the limit. unavailable: draining or
  // dead. On success `sink` gets every output, the last one finished.
  virtual Status submit(Request request, std::shared_ptr<OutputSink> sink) = 0;

  // Refuses a request of this tenant before its body is read, if every request of it would be refused now:
  // resource_exhausted (the queue is too long), with the expected wait in seconds. It counts as a refusal.
  // Nothing: submit() decides. Any thread.
  struct Refusal {
    Status status;
    double wait_s = 0;
  };
  virtual std::optional<Refusal> refuse_unread(std::string_view /*tenant*/) { return std::nullopt; }

  // Seconds that a request that comes now would wait to be scheduled; for Retry-After. Any thread.
  virtual double expected_wait(std::string_view /*tenant*/, std::int32_t /*priority*/) const { return 0; }

  // Frees what the request holds at the start of the next step. Unknown or finished ids are ignored.
  // Its sink gets one last output, with finish_reason abort.
  virtual void abort(RequestId id) = 0;

  // Ends one sequence (choice) of a request, e.g. after a stop string: no more tokens are computed for it.
  // Its last delta has finish_reason abort, which the caller replaces by its own reason.
  virtual void abort_sequence(RequestId id, std::int32_t index) = 0;

  // The engine's complete state between two steps. `done` is called once: on the engine thread after the
  // current step, or at once if the engine has stopped (unavailable). It must hand over and return.
  using SnapshotDone = std::function<void(Result<std::shared_ptr<const EngineSnapshot>>)>;
  virtual void snapshot(SnapshotDone done) {
    done(Status(StatusCode::unimplemented, "This engine cannot be inspected."));
  }

  // Lean snapshots with what has happened since it was asked last: as soon as there is something new since
  // step `seen`
  // (-1: at once). `done` as above; it gets at least one, the newest last. Meant for repeated calls; nothing
  // is collected while there are none.
  using LiveStates = std::vector<std::shared_ptr<const EngineSnapshot>>;
  using LiveDone = std::function<void(Result<LiveStates>)>;
  virtual void live_state(std::int64_t /*seen*/, LiveDone done) {
    done(Status(StatusCode::unimplemented, "This engine cannot be inspected."));
  }
  // Whether the answers to live_state() hold a snapshot of each step from now on
  // (EngineSnapshot::every_step). Snapshots that wait to be fetched have a bound, beyond which one stands for
  // several steps.
  virtual void live_every_step(bool /*wanted*/) {}

  // Computes a prefix once and pins it under `name`; prompts that start with it use its K/V from then on,
  // under any cache_salt. `sink` gets one output, finished, with the error if it could not be pinned
  // (already_exists: there is one of this name).
  virtual Status add_prefix(std::string, std::vector<TokenId>, std::shared_ptr<OutputSink>) {
    return unimplemented("This engine does not support shared prefixes.");
  }
  virtual std::vector<PrefixInfo> list_prefixes() const { return {}; }
  // not_found: there is none of this name. Requests that use it keep its blocks until they end.
  virtual Status drop_prefix(const std::string&) { return not_found("There is no prefix with this name."); }

  // Asleep it takes requests, which wait, and computes nothing. From level 1 on the weights' memory is given
  // back until it wakes, and that of K/V that no kept request and no pinned prefix needs; the prefix cache is
  // empty then. `done` as above, once it sleeps or is awake. unimplemented: this engine cannot.
  using ControlDone = std::function<void(Status)>;
  virtual void sleep(const SleepOrder& /*order*/, ControlDone done) {
    done(unimplemented("This engine cannot sleep."));
  }
  // Not ok: the weights cannot be loaded again; it sleeps on, and may be woken once more.
  virtual void wake_up(const WakeOrder& /*order*/, ControlDone done) {
    done(unimplemented("This engine cannot sleep."));
  }
  virtual bool is_sleeping() const { return false; }
  // Nothing that is cached now is found by requests to come. What runs keeps its own K/V.
  virtual void reset_prefix_cache(ControlDone done) {
    done(unimplemented("This engine has no prefix cache."));
  }

  // The same for what this owner has cached, in tiers, too; of any where it says 0. Requests of it that run
  // leave theirs there again. `done` is called on any thread.
  virtual void erase_cached(const CacheOwner& /*owner*/, ControlDone done) {
    done(unimplemented("This engine has no prefix cache."));
  }

  // False once the engine thread has died (all of them, where there are several).
  virtual bool healthy() const = 0;
  // The error that stopped the engine; ok while it runs or if the reason is unknown. Any thread.
  virtual Status failure() const { return ok_status(); }
  // unavailable: an engine has died, and of what; /health turns red.
  virtual Status check_health() const {
    if (healthy()) return ok_status();
    const Status why = failure();
    return unavailable(why.ok() ? "The engine has stopped."
                                : concat("The engine has stopped: ", why.message()));
  }

  // The engines behind this client (engine_group.h), each of which can be inspected by itself.
  virtual std::size_t num_engines() const { return 1; }
  virtual EngineClient& engine(std::size_t /*rank*/) { return *this; }
};

}  // namespace pagoda
