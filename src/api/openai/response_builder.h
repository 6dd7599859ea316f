#pragma once
// ResponseBuilder: takes RequestOutputs; produces one response body or server-sent events. Shared by the HTTP
// server and the offline `generate` command. It detokenizes, matches stop strings and counts usage.
//     add(prompt, output)* -> take_stops() -> take_events()*   (streaming)
//                                          -> body()           (finished, not streaming)
// Invariant: once finished(), further add() calls change nothing; every choice has a finish reason, or
// error() says why not. Source of the forms: OpenAI's API reference; vLLM's OpenAI server for the extensions.
// Threads: none; one at a time.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/answer_writer.h"
#include "api/api_context.h"
#include "api/openai/parsed_call.h"
#include "base/status.h"
#include "request/request_output.h"

namespace pagoda {

class ResponseBuilder final : public AnswerWriter {
 public:
  ResponseBuilder(ResponseOptions options, const ApiContext& context);  // borrows context
  ~ResponseBuilder() override;

  void add(std::size_t prompt_index, RequestOutput output) override;
  void fail(Status error) override;
  std::vector<SequenceStop> take_stops() override;
  bool streaming() const override;
  bool needs_every_output() const override;
  bool finished() const override;
  const Status& error() const override;
  Usage usage() const override;
  bool take(std::string& out, std::size_t max_bytes) override;
  double held() const override;

  // Streaming: all events that are ready ("data: {…}
  // "), ending with [DONE] once finished. A failed call ends with an error event.
  std::string take_events();
  // The response body. Only if not streaming and finished without an error.
  std::string body();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pagoda
