#pragma once
// ChoiceWriter: writes the JSON of choices, log-probabilities and usage, in OpenAI's form with vLLM's
// additions. It keeps no state of the answer.
// An answer may be hundreds of megabytes, so it is written in pieces (base/steps.h).
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_state.h"
#include "api/choice_state.h"
#include "api/json.h"
#include "api/openai/parsed_call.h"
#include "base/steps.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// Text that is written but not yet sent, and the size at which writing pauses.
struct PieceBuffer {
  std::string text;
  std::size_t limit = 0;
  bool full() const { return text.size() >= limit; }
};

class ChoiceWriter {
 public:
  // Borrows all three. The JsonWriters passed below must write into `buffer`.
  ChoiceWriter(const ResponseOptions& options, const Tokenizer& tokenizer, const PieceBuffer& buffer)
      : options_(options), tokenizer_(tokenizer), buffer_(buffer) {}

  // Writes one entry of `choices`. `chunk`: a stream's entry, with fresh output only and a null finish_reason
  // while unfinished. Takes the written output out of `choice` and frees it. Pauses when the buffer is full.
  Steps write(JsonWriter& writer, std::size_t index, ChoiceState& choice, const PromptInfo& prompt,
              const PromptState& prompt_state, bool chunk) const;
  Steps write_prompt_logprobs(JsonWriter& writer, const PromptInfo& prompt, const PromptState& state) const;
  // `whole`: the answer that `usage` belongs to, if it has ended.
  static void write_usage(JsonWriter& writer, const Usage& usage, const AnswerState* whole = nullptr);

 private:
  static void write_reasoning(JsonWriter& writer, const std::string& text);
  void write_calls(JsonWriter& writer, std::size_t index, const std::vector<ChoiceState::CallPiece>& calls,
                   bool chunk) const;
  std::string token_text(TokenId id) const;
  Steps write_completion_logprobs(JsonWriter& writer, ChoiceState& choice, const PromptInfo& prompt,
                                  const PromptState& prompt_state, bool with_prompt) const;
  Steps write_chat_logprobs(JsonWriter& writer, std::vector<TokenLogprobs>& tokens) const;

  const ResponseOptions& options_;
  const Tokenizer& tokenizer_;
  const PieceBuffer& buffer_;
};

}  // namespace pagoda
