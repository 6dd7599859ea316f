#pragma once
// For tests only: a small served model that uses the FakeTokenizer, and outputs as an engine would send them.
#include <span>
#include <string>
#include <vector>

#include "api/api_context.h"
#include "api/fake_tokenizer.h"
#include "request/request_output.h"

namespace pagoda {

struct TestModel {
  FakeTokenizer tokenizer;
  ChatTemplate chat_template;
  ApiContext context;

  explicit TestModel(std::int32_t max_model_len = 100)
      : chat_template(
            *ChatTemplate::parse("{% for m in messages %}<x>{{ m.role }}\n{{ m.content }}\n{% endfor %}"
                                 "{% if add_generation_prompt %}<x>assistant\n{% endif %}")) {
    context.tokenizer = &tokenizer;
    context.chat_template = &chat_template;
    context.model_names = {"tiny", "alias"};
    context.max_model_len = max_model_len;
    context.vocab_size = tokenizer.vocab_size();
    context.eos_token_ids = {FakeTokenizer::kEos};
    context.system_fingerprint = "fp_test";
    context.version = "1.2.3";
    context.make_ready();
  }
  TestModel(const TestModel&) = delete;
};

// One step's output of a sequence: the bytes of `text` as tokens.
inline SequenceDelta delta_of(std::string_view text, std::int32_t index = 0) {
  SequenceDelta delta;
  delta.index = index;
  for (const char c : text) delta.token_ids.push_back(static_cast<unsigned char>(c));
  return delta;
}

inline TokenLogprobs logprobs_of(TokenId id, float logprob, std::vector<TokenLogprob> top = {}) {
  return {.chosen = {.token = id, .logprob = logprob, .rank = 1}, .top = std::move(top)};
}

}  // namespace pagoda
