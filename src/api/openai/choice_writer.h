#pragma once
// ChoiceWriter: the JSON of choices, log-probabilities and usage, in OpenAI's shapes with vLLM's additions.
// Holds no state of an answer.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "api/json.h"
#include "api/openai/choice_state.h"
#include "api/parsed_call.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// What the engine said about a prompt.
struct PromptState {
  std::int32_t num_cached_tokens = 0;
  std::vector<std::optional<TokenLogprobs>> logprobs;
};

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
};

class ChoiceWriter {
 public:
  ChoiceWriter(const ResponseOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer) {}

  // One entry of `choices`. `chunk`: of a stream, then only what is fresh, and null while unfinished.
  // Takes what it writes out of `choice`.
  void write(JsonWriter& writer, std::size_t index, ChoiceState& choice, const PromptInfo& prompt,
             const PromptState& prompt_state, bool chunk) const;
  void write_prompt_logprobs(JsonWriter& writer, const PromptInfo& prompt, const PromptState& state) const;
  static void write_usage(JsonWriter& writer, const Usage& usage);

 private:
  std::string token_text(TokenId id) const;
  void write_completion_logprobs(JsonWriter& writer, ChoiceState& choice, const PromptInfo& prompt,
                                 const PromptState& prompt_state, bool with_prompt) const;
  void write_chat_logprobs(JsonWriter& writer, std::span<const TokenLogprobs> tokens) const;
  void write_chat_token(JsonWriter& writer, const TokenLogprob& token) const;

  const ResponseOptions& options_;
  const Tokenizer& tokenizer_;
};

}  // namespace pagoda
