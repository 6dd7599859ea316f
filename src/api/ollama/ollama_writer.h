#pragma once
// OllamaWriter: an answer as Ollama's lines: {"message": …, "done": false}* and a last one with why it ended,
// counts and durations; or all in one. Source: Ollama's docs/api.md. Threads: none.
#include <cstdint>
#include <map>
#include <string>

#include "api/errors.h"
#include "api/json.h"
#include "api/ollama/ollama_parser.h"
#include "api/state_writer.h"

namespace pagoda {

class OllamaWriter final : public StateWriter {
 public:
  OllamaWriter(OllamaCall call, std::int64_t created, const ApiContext& context);

 private:
  void write_events(std::string& out) override;
  void write_body(std::string& out) override;
  // One object: what is fresh and, of the last one, the end.
  void write_line(std::string& out, const ChoiceState::Fresh& fresh, bool last);
  void write_calls(JsonWriter& json) const;
  void write_end(JsonWriter& json) const;

  const bool chat_;
  const bool loads_only_;
  const std::string created_;
  struct Call {
    std::string name, arguments;
  };
  std::map<std::int32_t, Call> calls_;  // told whole, at the end: a line has no part of a call
};

// {"error": "…"}
std::string ollama_error_body(const ApiError& error);
// A time as Ollama writes it: RFC 3339, UTC.
std::string rfc3339(std::int64_t unix_seconds);

}  // namespace pagoda
