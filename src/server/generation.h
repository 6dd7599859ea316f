#pragma once
// Generation: one API call in the engine. Submits its requests, collects their outputs from the engine
// thread, and feeds them to the call's AnswerWriter on the owner's thread. No sockets.
//
//     engine thread --on_output--> mailbox --wake()--> owner's thread: pump() -> bytes
//
// Invariants: after cancel(), fail() or destruction nothing runs in the engine for this call, and wake() is
// never called again. The mailbox is bounded by the admitted tokens: outputs that wait long are merged.
// Source: merging outputs as in the per-request output queues of llama.cpp and vLLM.
// Threads: all members on one thread (or strand); only the mailbox is shared with the engine thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/protocol.h"
#include "base/clock.h"
#include "base/memory_budget.h"
#include "engine/client.h"
#include "server/keys/key_usage.h"

namespace pagoda {

class Generation {
 public:
  // Borrows engine. `wake` is called on the engine thread, at most once between two pumps; it must only hand
  // over and return.
  Generation(ApiGeneration call, EngineClient& engine, MemoryReservation memory, std::function<void()> wake);
  ~Generation();
  Generation(const Generation&) = delete;

  // Submits the requests, with ids from `first_id` on. On an error, no request is left running. `deadline` 0:
  // none.
  Status start(std::uint64_t first_id, TimeNs now, TimeNs deadline = 0);
  std::size_t num_requests() const { return requests_.size(); }

  // Processes outputs that have arrived and appends the bytes to send, up to about `max_bytes`. Takes a few
  // milliseconds at most. Returns true if there is more to process right away.
  bool pump(std::string& out, std::size_t max_bytes);
  void open(std::string& out) { answer_->open(out); }
  void ping(std::string& out) { answer_->ping(out); }
  bool finished() const { return answer_->finished(); }
  AnswerWriter& answer() { return *answer_; }
  const Status& error() const { return answer_->error(); }
  bool streaming() const { return streaming_; }
  // Releases the memory of the parts that have been sent.
  void shrink();
  std::int64_t held_bytes() const { return memory_.bytes(); }
  // Tokens used so far. A prompt counts once output has arrived for it.
  UsedTokens used() const;
  // Times of the first prompt's latest output.
  const RequestTimes& times() const { return times_; }

  void cancel();            // the client is gone; tokens that have arrived count as used
  void fail(Status error);  // the call ends with an error

 private:
  struct Mailbox;
  class Sink;
  struct Arrival;

  void abort_running();
  void note_use(const Arrival& arrival);

  EngineClient& engine_;
  std::shared_ptr<Mailbox> mailbox_;  // shared with the sinks, which the engine may hold for a step longer
  std::vector<Request> requests_;
  std::vector<RequestId> running_;  // by prompt; RequestId{0} once its last output has arrived
  std::vector<RequestId> ids_;
  struct PromptUse {
    std::int64_t prompt_tokens = 0, cached_tokens = 0;
    std::int32_t num_choices = 1;
    bool computed = false;
  };
  std::vector<PromptUse> use_;  // by prompt
  RequestTimes times_;
  std::int64_t unread_tokens_ = 0;  // arrived before the call was cancelled
  std::vector<Arrival> taken_;      // from the mailbox, not yet given to the writer; in reverse order
  MemoryReservation memory_;        // initially for the whole answer; outlives it
  const std::int64_t all_bytes_;
  std::unique_ptr<AnswerWriter> answer_;
  const bool streaming_;
  bool writing_ = false;  // take() has more to write
};

}  // namespace pagoda
