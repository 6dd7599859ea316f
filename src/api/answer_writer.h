#pragma once
// AnswerWriter: writes the answer of one call in one protocol's form: takes engine outputs, produces bytes
// for the client. It does not send the bytes (server/) or hold the answer itself (answer_state.h).
//
//     add(prompt, output)* -> take_stops() -> take(out)*
//
// Invariants: once finished(), further add() calls change nothing; every choice has a finish reason, or
// error() says why not. For a call that is not streamed, take() yields nothing until the call has finished
// without an error. Threads: none; one at a time. Owner: the code serving the call.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/request_output.h"

namespace pagoda {

// A sequence whose text has ended while the engine still runs it. Passed to EngineClient::abort_sequence.
struct SequenceStop {
  std::size_t prompt_index;
  std::int32_t sequence;
};

// Token counts, as in the protocol's usage field.
struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0, reasoning_tokens = 0;
};

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // Adds one output of the request that was made from prompt `prompt_index` of the call.
  virtual void add(std::size_t prompt_index, RequestOutput output) = 0;
  // Ends the call with an error, e.g. because a submit failed or the server is shutting down.
  virtual void fail(Status error) = 0;
  virtual std::vector<SequenceStop> take_stops() = 0;

  virtual bool streaming() const = 0;
  // False if it suffices to add outputs once a request has ended.
  virtual bool needs_every_output() const = 0;
  virtual bool finished() const = 0;
  virtual const Status& error() const = 0;
  // Usage of all outputs so far, whether shown to the client or not. Charged to the API key.
  virtual Usage usage() const = 0;

  // Appends the bytes that are ready to be sent, stopping soon after `max_bytes`, and frees what it has
  // written. Returns true if there is more. A failed stream ends with the protocol's error event.
  virtual bool take(std::string& out, std::size_t max_bytes) = 0;
  // Appends the opening of a stream of server-sent events before its first event. Most protocols append
  // nothing: simple clients treat every line as data, so an initial comment would break each of their calls.
  virtual void open(std::string&) {}
  // Appends a keep-alive to an idle stream of server-sent events, for the client and proxies.
  virtual void ping(std::string& out) { out.append(": ping\n\n"); }
  // Fraction of the answer's memory still in use, from 1 down to 0: parts are freed once taken.
  virtual double held() const { return 1; }
  // Bytes of JSON per token that are held until the end, for answers that are written in one piece.
  virtual std::int64_t held_bytes_per_token() const { return 0; }
};

}  // namespace pagoda
