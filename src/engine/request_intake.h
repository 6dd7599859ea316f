#pragma once
// RequestIntake: checks requests against the capabilities of this engine, and creates the state that serves
// each. Invariant: a request accepted by validate() can be served to its end if it has the KV cache to
// itself. Threads: validate() is safe from any thread; the rest is the engine thread's.
#include "engine/engine_config.h"
#include "engine/engine_parts.h"
#include "engine/request_table.h"

namespace pagoda {

class RequestIntake {
 public:
  // Borrows all arguments.
  RequestIntake(const EngineConfig& config, const EngineParts& parts, const Clock& clock,
                RequestTable& requests, SequenceIds& ids);

  // invalid_argument, naming the limit, if the request can never be served here.
  Status validate(const Request& request) const;
  // Adds a validated request with a new id to the table and the waiting queue. `prefix_name`: as in
  // RequestState.
  void start(Request request, std::shared_ptr<OutputSink> sink, std::string prefix_name = {});

 private:
  Status check_tokens(const Request& request) const;
  std::unique_ptr<RequestState> make_state(Request request, std::shared_ptr<OutputSink> sink);

  const EngineConfig& config_;
  const EngineParts& parts_;
  const Clock& clock_;
  RequestTable& requests_;
  SequenceIds& ids_;
  std::uint64_t num_drawn_seeds_ = 0;
};

}  // namespace pagoda
