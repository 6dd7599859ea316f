#pragma once
// OllamaWriter: writes an answer as Ollama's lines: {"message": …, "done": false}*, with each tool call whole
// in one line, then a last line with the finish reason, counts and durations. Or all of it in one line.
// Source: Ollama's docs/api.md. Threads: none.
#include <cstdint>
#include <string>
#include <vector>

#include "api/errors.h"
#include "api/json.h"
#include "api/ollama/ollama_parser.h"
#include "api/state_writer.h"

namespace pagoda {

class OllamaWriter final : public StateWriter {
 public:
  // `id`: the answer's id, from which the ids of its calls are derived.
  OllamaWriter(OllamaCall call, std::string id, std::int64_t created, const ApiContext& context);

 private:
  void write_events(std::string& out) override;
  void write_body(std::string& out) override;
  struct Call {
    std::string id, name, arguments;
  };
  // A part of the answer. The last one carries the counts.
  struct Line {
    std::string text, reasoning;
    std::vector<Call> calls;
    std::vector<TokenLogprobs> logprobs;
    bool last = false;
  };
  void write_line(std::string& out, const Line& line);
  void write_calls(JsonWriter& json, const std::vector<Call>& calls) const;
  void write_logprobs(JsonWriter& json, const std::vector<TokenLogprobs>& logprobs) const;
  void write_end(JsonWriter& json) const;
  void absorb();
  // Moves out the complete calls: all but the newest, and all once the answer has ended.
  std::vector<Call> take_calls();

  const bool chat_;
  const bool loads_only_, unloads_;
  const std::string id_, created_;
  Line pending_;                 // not yet written
  std::vector<Call> calls_;      // a line never has part of a call
  std::size_t num_written_ = 0;  // calls_ written so far
};

// {"error": "…"}
std::string ollama_error_body(const ApiError& error);

}  // namespace pagoda
