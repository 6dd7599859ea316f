#include "api/openai/choice_writer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "api/logprob_writer.h"
#include "api/timings.h"
#include "api/tool_fields.h"
#include "base/strings.h"

namespace pagoda {

std::string ChoiceWriter::token_text(TokenId id) const {
  return written_token(id, tokenizer_, options_.tokens_as_ids);
}

Steps ChoiceWriter::write(JsonWriter& writer, std::size_t index, ChoiceState& choice,
                          const PromptInfo& prompt, const PromptState& prompt_state, bool chunk) const {
  const bool chat = options_.kind == CallKind::chat;
  const bool first = !std::exchange(choice.begun, true);
  ChoiceState::Fresh fresh = std::exchange(choice.fresh, {});
  if (first && options_.echo) fresh.text.insert(0, chat ? options_.echo_prefix : prompt.text);

  writer.begin_object().key("index").integer(static_cast<std::int64_t>(index));
  if (!chat) {
    writer.key("text").string(fresh.text);
  } else if (chunk) {
    writer.key("delta").begin_object();
    if (first) writer.key("role").string("assistant");
    const bool more = !fresh.reasoning.empty() || !fresh.calls.empty();
    if ((first && !more) || !fresh.text.empty()) writer.key("content").string(fresh.text);
    if (!fresh.reasoning.empty()) write_reasoning(writer, fresh.reasoning);
    if (!fresh.calls.empty()) write_calls(writer, index, fresh.calls, /*chunk=*/true);
    writer.end_object();
  } else {
    writer.key("message").begin_object();
    writer.key("role").string("assistant").key("content");
    fresh.text.empty() && !fresh.calls.empty() ? writer.null() : writer.string(fresh.text);
    writer.key("refusal").null();
    if (!fresh.reasoning.empty()) write_reasoning(writer, fresh.reasoning);
    if (!fresh.calls.empty()) write_calls(writer, index, fresh.calls, /*chunk=*/false);
    writer.end_object();
  }

  const bool with_prompt = first && options_.echo && !chat;
  if (options_.logprobs && (!chunk || with_prompt || !fresh.logprobs.empty())) {
    writer.key("logprobs");
    choice.fresh.logprobs = std::move(fresh.logprobs);
    Steps part = chat ? write_chat_logprobs(writer, choice.fresh.logprobs)
                      : write_completion_logprobs(writer, choice, prompt, prompt_state, with_prompt);
    while (part.step()) co_await rest();
    choice.fresh.logprobs = {};
  } else if (!chat || !chunk) {
    writer.key("logprobs").null();
  }

  writer.key("finish_reason");
  const bool calls = choice.num_calls > 0 && choice.finish_reason == FinishReason::stop;
  choice.finish_reason ? writer.string(calls ? "tool_calls" : finish_reason_name(*choice.finish_reason))
                       : writer.null();
  writer.key("stop_reason");
  if (const auto* text = std::get_if<std::string>(&choice.stop_reason))
    writer.string(*text);
  else if (const auto* token = std::get_if<TokenId>(&choice.stop_reason))
    writer.integer(*token);
  else
    writer.null();

  if ((options_.logprobs || options_.cumulative_logprob) && choice.finished())
    writer.key("cumulative_logprob")
        .float64(std::isfinite(choice.cumulative_logprob) ? choice.cumulative_logprob : -9999.0);
  if (options_.prompt_logprobs && !chat && !chunk) {
    writer.key("prompt_logprobs");
    for (Steps part = write_prompt_logprobs(writer, prompt, prompt_state); part.step();) co_await rest();
  }
  if (options_.return_token_ids) {
    writer.key("token_ids").integers(fresh.token_ids);
    if (!chat && (first || !chunk)) writer.key("prompt_token_ids").integers(prompt.token_ids);
  }
  writer.end_object();
}

// Writes reasoning under both names that vLLM's clients know.
void ChoiceWriter::write_reasoning(JsonWriter& writer, const std::string& text) {
  const std::string valid = to_valid_utf8(text);
  writer.key("reasoning").string(valid).key("reasoning_content").string(valid);
}

void ChoiceWriter::write_calls(JsonWriter& writer, std::size_t index,
                               const std::vector<ChoiceState::CallPiece>& calls, bool chunk) const {
  writer.key("tool_calls").begin_array();
  for (const ChoiceState::CallPiece& call : calls) {
    const bool custom = call.origin != nullptr && call.origin->custom;
    writer.begin_object();
    if (chunk) writer.key("index").integer(call.index);
    if (call.name)
      writer.key("id")
          .string(call.id.empty() ? tool_call_id(options_.id, index, call.index) : call.id)
          .key("type")
          .string(custom ? "custom" : "function");
    writer.key(custom ? "custom" : "function").begin_object();
    if (call.name) writer.key("name").string(*call.name);
    writer.key(custom ? "input" : "arguments").string(call.arguments).end_object();
    if (call.name && call.origin != nullptr && !call.origin->group.empty())
      writer.key("namespace").string(call.origin->group);
    writer.end_object();
  }
  writer.end_array();
}

Steps ChoiceWriter::write_completion_logprobs(JsonWriter& writer, ChoiceState& choice,
                                              const PromptInfo& prompt, const PromptState& prompt_state,
                                              bool with_prompt) const {
  struct Entry {
    TokenId id;
    const TokenLogprobs* logprobs;  // null: the first token of a prompt has none
  };
  std::vector<TokenLogprobs>& fresh = choice.fresh.logprobs;
  const std::size_t of_prompt = with_prompt ? prompt.token_ids.size() : 0;
  const std::size_t count = of_prompt + fresh.size();
  const auto entry = [&](std::size_t i) -> Entry {
    if (i >= of_prompt) return {fresh[i - of_prompt].chosen.token, &fresh[i - of_prompt]};
    const bool known = i < prompt_state.logprobs.size() && prompt_state.logprobs[i].has_value();
    return {prompt.token_ids[i], known ? &*prompt_state.logprobs[i] : nullptr};
  };

  writer.begin_object().key("text_offset").begin_array();
  for (std::size_t i = 0; i < count; ++i) {
    writer.integer(choice.logprob_characters);
    choice.logprob_characters += count_characters(token_text(entry(i).id));
    if (buffer_.full()) co_await rest();
  }
  writer.end_array().key("token_logprobs").begin_array();
  for (std::size_t i = 0; i < count; ++i) {
    const TokenLogprobs* logprobs = entry(i).logprobs;
    logprobs == nullptr ? writer.null() : writer.float32(writable_logprob(logprobs->chosen.logprob));
    if (buffer_.full()) co_await rest();
  }
  writer.end_array().key("tokens").begin_array();
  for (std::size_t i = 0; i < count; ++i) {
    writer.string(token_text(entry(i).id));
    if (buffer_.full()) co_await rest();
  }
  writer.end_array().key("top_logprobs").begin_array();
  for (std::size_t i = 0; i < count; ++i) {
    const auto [id, logprobs] = entry(i);
    if (logprobs == nullptr) {
      writer.null();
      continue;
    }
    // The object is keyed by text: of two tokens with the same text, the first, more likely one is kept.
    std::unordered_set<std::string> seen{token_text(id)};
    writer.begin_object().key(*seen.begin()).float32(writable_logprob(logprobs->chosen.logprob));
    for (const TokenLogprob& top : logprobs->top) {
      const std::string text = token_text(top.token);
      if (seen.insert(text).second) writer.key(text).float32(writable_logprob(top.logprob));
    }
    writer.end_object();
    if (i >= of_prompt) fresh[i - of_prompt].top = {};
    if (buffer_.full()) co_await rest();
  }
  writer.end_array().end_object();
}

Steps ChoiceWriter::write_chat_logprobs(JsonWriter& writer, std::vector<TokenLogprobs>& tokens) const {
  writer.begin_object().key("content").begin_array();
  for (TokenLogprobs& token : tokens) {
    write_token_logprobs(
        writer, token, tokenizer_,
        {.tokens_as_ids = options_.tokens_as_ids, .as_probabilities = options_.after_sampling});
    token.top = {};
    if (buffer_.full()) co_await rest();
  }
  writer.end_array().key("refusal").null().end_object();
}

Steps ChoiceWriter::write_prompt_logprobs(JsonWriter& writer, const PromptInfo& prompt,
                                          const PromptState& state) const {
  const auto entry = [&](const TokenLogprob& token) {
    writer.key(std::to_string(token.token)).begin_object();
    writer.key("logprob").float32(writable_logprob(token.logprob));
    writer.key("rank").integer(token.rank);
    writer.key("decoded_token").string(to_valid_utf8(tokenizer_.token_bytes(token.token)));
    writer.end_object();
  };
  writer.begin_array();
  for (std::size_t i = 0; i < prompt.token_ids.size(); ++i) {
    if (i >= state.logprobs.size() || !state.logprobs[i]) {
      writer.null();
      continue;
    }
    writer.begin_object();
    entry(state.logprobs[i]->chosen);
    for (const TokenLogprob& top : state.logprobs[i]->top)
      if (top.token != state.logprobs[i]->chosen.token) entry(top);
    writer.end_object();
    if (buffer_.full()) co_await rest();
  }
  writer.end_array();
}

void ChoiceWriter::write_usage(JsonWriter& writer, const Usage& usage, const AnswerState* whole) {
  writer.begin_object();
  writer.key("prompt_tokens").integer(usage.prompt_tokens);
  writer.key("completion_tokens").integer(usage.completion_tokens);
  writer.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  writer.key("prompt_tokens_details")
      .begin_object()
      .key("cached_tokens")
      .integer(usage.cached_tokens)
      .end_object();
  writer.key("completion_tokens_details").begin_object();
  writer.key("reasoning_tokens").integer(usage.reasoning_tokens).end_object();
  if (whole != nullptr) {
    writer.key("timings");
    write_timings(writer, *whole);
  }
  writer.end_object();
}

}  // namespace pagoda
