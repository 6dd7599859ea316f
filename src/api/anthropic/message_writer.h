#pragma once
// MessageWriter: writes an answer as Anthropic's message: content blocks (thinking, text, tool_use), whole or
// as stream events: message_start, content_block_start/delta/stop for one block after another, message_delta,
// message_stop. Invariant: at most one block is open; each is closed once.
// Source: Anthropic's API reference, Messages and "Streaming messages". Threads: none.
#include <cstdint>
#include <string>

#include "api/errors.h"
#include "api/json.h"
#include "api/state_writer.h"

namespace pagoda {

class MessageWriter final : public StateWriter {
 public:
  // `clipped`: max_tokens was reduced to fit the context.
  MessageWriter(std::string id, AnswerOptions options, bool stream, bool clipped, const ApiContext& context);

  // message_start is sent immediately. The number of cached prompt tokens is reported at the end, when it is
  // known.
  void open(std::string& out) override { ping(out); }
  void ping(std::string& out) override;

 private:
  enum class Block : std::uint8_t { none, thinking, text, tool };

  void write_events(std::string& out) override;
  void write_body(std::string& out) override;
  void begin_message(std::string& out);
  void open_block(std::string& out, Block kind, const ChoiceState::CallPiece* call = nullptr);
  void close_block(std::string& out);
  void write_delta(std::string& out, std::string_view type, std::string_view field,
                   std::string_view text) const;
  void end_message(std::string& out);
  void write_stop(JsonWriter& json) const;
  void write_usage(JsonWriter& json) const;
  std::string signature() const;
  std::string call_id(const ChoiceState::CallPiece& call) const;

  const std::string id_;
  const bool clipped_;
  bool begun_ = false;
  Block open_ = Block::none;
  std::int32_t open_call_ = -1;
  std::int64_t num_blocks_ = 0;  // blocks begun so far
};

// {"type": "error", "error": {"type", "message"}}
std::string anthropic_error_body(const ApiError& error);

}  // namespace pagoda
