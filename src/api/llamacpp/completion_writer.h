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

 private:
  void write_events(std::string& out) override;
  void write_body(std::string& out) override;
  void write_piece(std::string& out);
  // The fields of `whole` that the call asks for, by their paths.
  void write_chosen(std::string_view whole, std::string& out) const;
  void write_end(JsonWriter& json) const;

  const SamplingParams sampling_;
  const std::string prompt_;
  const std::vector<std::string> response_fields_;
  const bool timings_per_token_;
  bool has_new_line_ = false;
};

// {"error": {"code", "message", "type"}}
std::string llamacpp_error_body(const ApiError& error);

}  // namespace pagoda
