#pragma once
// AnswerWriter: writes the answer of one call in the form of one protocol: outputs of the engine in, bytes
// for the client out. It does not send them (server/), and does not hold the answer itself (answer_state.h).
//
//     add(prompt, output)* -> take_stops() -> take(out)*
//
// Invariants: once finished(), further add() calls change nothing; every choice has a finish reason, or
// error() says why not. A call that is not streamed has nothing to take before it has finished without an
// error. Threads: none; one at a time. Owner: the code that serves the call.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/request_output.h"

namespace pagoda {

// A sequence whose text has ended while the engine still runs it: for EngineClient::abort_sequence.
struct SequenceStop {
  std::size_t prompt_index;
  std::int32_t sequence;
};

// In tokens, as in the protocol's usage field.
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
  // False if outputs may as well be added only when a request has ended.
  virtual bool needs_every_output() const = 0;
  virtual bool finished() const = 0;
  virtual const Status& error() const = 0;
  // Usage of all outputs so far, shown to the client or not; it is charged to the key.
  virtual Usage usage() const = 0;

  // Appends what is ready to be sent, stopping soon after `max_bytes`. True: there is more. Frees what
  // it has written. A failed stream ends with the protocol's error event.
  virtual bool take(std::string& out, std::size_t max_bytes) = 0;
  // Appends what opens a stream of server-sent events that has nothing to say yet. Nothing for most
  // protocols: simple clients take every line for data, and a comment at once would end each of their calls.
  virtual void open(std::string&) {}
  // Appends a keep-alive to a silent stream of server-sent events, for the client and proxies.
  virtual void ping(std::string& out) { out.append(": ping\n\n"); }
  // The fraction of the answer's memory that is still in use, 1 to 0: taken parts are freed.
  virtual double held() const { return 1; }
  // JSON of a token that is held until the end, in bytes: of answers that are written in one piece.
  virtual std::int64_t held_bytes_per_token() const { return 0; }
};

}  // namespace pagoda
