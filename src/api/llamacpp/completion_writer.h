#pragma once
// CompletionWriter: an answer of /completion, whole or as events, with llama.cpp's counts and timings.
// Source: the README of llama.cpp's server. Threads: none.
#include <string>

#include "api/errors.h"
#include "api/json.h"
#include "api/llamacpp/completion_parser.h"
#include "api/state_writer.h"

namespace pagoda {

class LlamaCompletionWriter final : public StateWriter {
 public:
  LlamaCompletionWriter(LlamaCompletion call, const ApiContext& context);

  bool needs_every_output() const override { return true; }  // for the times

 private:
  void note_output() override;
  void write_events(std::string& out) override;
  void write_body(std::string& out) override;
  void write_piece(std::string& out);
  void write_end(JsonWriter& json) const;
  TimeNs now() const { return context_.clock == nullptr ? 0 : context_.clock->now(); }

  const SamplingParams sampling_;
  const std::string prompt_;
  const TimeNs begin_;
  TimeNs first_ = 0, last_ = 0;  // output
  bool has_new_line_ = false;
};

// {"error": {"code", "message", "type"}}
std::string llamacpp_error_body(const ApiError& error);

}  // namespace pagoda
