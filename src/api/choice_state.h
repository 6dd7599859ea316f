#pragma once
// ChoiceState: one choice of a growing answer, independent of the protocol: its tokens, its text so far that
// is final, and its finish reason.
// Threads: none.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/answer_options.h"
#include "api/call_text.h"
#include "api/custom_input.h"
#include "request/request_output.h"
#include "text/answer_parser.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace pagoda {

class ChoiceState {
 public:
  ChoiceState(const AnswerOptions& options, const Tokenizer& tokenizer, const PromptInfo& prompt);

  // Takes new tokens. Returns true if a stop string ended the text, so that the engine must end the sequence.
  bool absorb(SequenceDelta&& delta);

  bool finished() const { return finish_reason.has_value(); }

  // The beginning of a tool call, or more of its arguments.
  struct CallPiece {
    std::int32_t index;                  // index among this choice's calls
    std::optional<std::string> name;     // set on the first piece of the call
    std::string id;                      // likewise; the model's own id, empty if it has none
    std::string arguments;               // or the input of a custom tool
    const ToolOrigin* origin = nullptr;  // null: same name and form for client and model
  };
  // Output since the writer last took it.
  struct Fresh {
    std::string text;  // content
    std::string reasoning;
    std::vector<CallPiece> calls;
    std::vector<TokenId> token_ids;
    std::vector<TokenLogprobs> logprobs;
  };
  Fresh fresh;

  std::int32_t num_tokens = 0;
  std::int32_t num_calls = 0;             // tool calls so far
  std::int32_t num_reasoning_tokens = 0;  // including the token that ends reasoning
  double cumulative_logprob = 0;
  std::optional<FinishReason> finish_reason;
  std::variant<std::monostate, std::string, TokenId> stop_reason;  // the stop string or token

  // Bookkeeping of the writer.
  bool begun = false;  // the first chunk has been written
  // Total length of the token texts written so far: the next text_offset.
  std::int64_t logprob_characters = 0;

 private:
  bool push_token(TokenId id);
  bool push_text(const std::string& text, TokenId id);
  void parse(const AnswerPiece& piece);
  void gather();
  void watch(AnswerEvent event);
  void release();
  void apply(AnswerEvent& event);
  void begin_call(AnswerEvent& event);
  void add_arguments(std::int32_t call, std::string text);
  void end(FinishReason reason);
  void keep_logprobs(TokenLogprobs logprobs, bool is_text);
  void settle_logprobs(std::size_t bytes);

  const AnswerOptions& options_;
  const Tokenizer& tokenizer_;
  std::optional<AnswerParser> parser_;
  bool in_reasoning_ = false;
  std::vector<AnswerEvent> events_;
  std::vector<TokenLogprobs> unsettled_;  // not yet known whether their tokens are content or markup
  // Small models constrained to tool calls repeat the last call until they run out of tokens. A further call
  // of the same tool is held back until it differs from the last one; an identical call ends the answer.
  CallText last_, current_;
  std::vector<AnswerEvent> held_;  // events of the current call
  bool holds_ = false, repeated_ = false;
  const ToolOrigin* origin_ = nullptr;  // origin of the call being written
  CustomInput input_;                   // likewise, if the tool is a custom tool
  IncrementalDetokenizer detokenizer_;
  StopMatcher stop_matcher_;
};

}  // namespace pagoda
