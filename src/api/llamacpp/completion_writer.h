#pragma once
// CompletionWriter: writes the answers of /completion, whole or as events, with llama.cpp's counts and
// timings. One whole answer is an object, several are a list; an event belongs to one answer, named by its
// index. Source: the README of llama.cpp's server. Threads: none.
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
  // Writes the fresh part of one answer.
  void write_piece(std::size_t index, std::string& out);
  // Writes the fields of `whole` selected by response_fields.
  void write_chosen(std::string_view whole, std::string& out) const;
  void write_end(std::size_t index, JsonWriter& json) const;
  Usage usage_of(std::size_t index) const;

  const std::vector<Request> requests_;
  const std::vector<std::string> prompts_;
  const std::vector<std::string> response_fields_;
  const bool timings_per_token_;
  struct Sent {
    bool new_line = false, end = false;
  };
  std::vector<Sent> sent_;  // by answer
};

// {"error": {"code", "message", "type"}}
std::string llamacpp_error_body(const ApiError& error);

}  // namespace pagoda
