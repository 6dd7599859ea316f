#pragma once
// AnswerWriter: how one protocol answers one call: outputs of the engine in, bytes for the client out. Not
// where the bytes go (server/), and not what an answer is (answer_state.h): only its form.
//
//     add(prompt, output)* -> take_stops() -> take(out)*
//
// Invariants: once finished(), further add() calls change nothing; every choice has a finish reason, or
// error() says why not. A call that is not streamed has nothing to take before it has finished without an
// error. Threads: none; one at a time. Owner: whoever made the call.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/request_output.h"

namespace pagoda {

// A sequence whose text is over although the engine goes on: for EngineClient::abort_sequence.
struct SequenceStop {
  std::size_t prompt_index;
  std::int32_t sequence;
};

// In tokens, as the protocol's own usage tells it.
struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0, reasoning_tokens = 0;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // One output of the request made from the call's prompt of that index.
  virtual void add(std::size_t prompt_index, RequestOutput output) = 0;
  // Ends the call with an error: a submit failed, the server is shutting down.
  virtual void fail(Status error) = 0;
  virtual std::vector<SequenceStop> take_stops() = 0;

  virtual bool streaming() const = 0;
  // False when it makes no difference to feed outputs only once a request has ended.
  virtual bool needs_every_output() const = 0;
  virtual bool finished() const = 0;
  virtual const Status& error() const = 0;
  // Usage of all that add() has brought so far: the key's holder is charged for it, shown or not.
  virtual Usage usage() const = 0;

  // Appends what is ready to be sent, and stops soon after `max_bytes` of it. True: there is more. Frees what
  // it has written. A stream that failed ends with the protocol's own event for it.
  virtual bool take(std::string& out, std::size_t max_bytes) = 0;
  // Appends a keep-alive to a stream of server-sent events that has nothing to send, for the client and the
  // proxies on the way. The first one opens the stream.
  virtual void ping(std::string& out) { out.append(": ping\n\n"); }
  // The share of the answer's memory that is still held, 1 to 0: what has been taken is no more.
  virtual double held() const { return 1; }
  // JSON of a token that is held until the end, in bytes: of answers that are written in one piece.
  virtual std::int64_t held_bytes_per_token() const { return 0; }
};

}  // namespace pagoda
