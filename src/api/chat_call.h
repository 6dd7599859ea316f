#pragma once
// ChatCall: turns a conversation and the options of its answer into one engine request. It is the shared step
// between the parsers of the protocols and chat_prompt_tokens.h, so that a conversation has the same tokens
// in every protocol. Errors: invalid_argument with a param() named as in Conversation, or "max_tokens".
// Threads: any.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "api/answer_options.h"
#include "api/api_context.h"
#include "api/chat_prompt_tokens.h"
#include "api/field_reader.h"
#include "api/held_answer.h"
#include "api/reasoning_fields.h"
#include "api/warnings.h"
#include "base/status.h"
#include "request/request.h"
#include "text/conversation.h"

namespace pagoda {

// Defaults of a request: the values of generation_config.json, and the model's end-of-turn tokens.
SamplingParams default_sampling(const ApiContext& context);

// Overrides a default with a request's field, if that is given.
template <class To, class From>
void assign_if_given(To& field, const std::optional<From>& value) {
  if (value) field = static_cast<To>(*value);
}

// A protocol's names of the sampling fields; empty: the protocol does not have the field.
struct SamplingNames {
  std::string_view temperature = "temperature", top_p = "top_p", top_k = "top_k", min_p = {};
  std::string_view repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {}, seed = {};
  bool negative_is_greedy = false;  // a temperature below zero; if false, it is refused
};
inline constexpr SamplingNames kVllmSampling = {.min_p = "min_p",
                                                .repetition_penalty = "repetition_penalty",
                                                .presence_penalty = "presence_penalty",
                                                .frequency_penalty = "frequency_penalty",
                                                .seed = "seed"};
inline constexpr SamplingNames kLlamaSampling = {.min_p = "min_p",  // as in llama.cpp and Ollama
                                                 .repetition_penalty = "repeat_penalty",
                                                 .presence_penalty = "presence_penalty",
                                                 .frequency_penalty = "frequency_penalty",
                                                 .seed = "seed"};
void read_sampling(FieldReader& fields, const SamplingNames& names, SamplingParams& sampling);
// Reads stop strings from "stop" or the protocol's field `name`.
void read_stops(FieldReader& fields, std::string_view name, AnswerOptions& answer);

// The formats of reasoning and, if allowed, of tool calls in the answer to this prompt.
AnswerParserOptions answer_parser_options(const ApiContext& context, bool may_call,
                                          std::span<const TokenId> prompt);
// Sets the parser of `answer` for these formats and tools; nullopt (plain text) if neither format is known.
void set_answer_parser(AnswerParserOptions parser, std::vector<ToolSpec> tools, AnswerOptions& answer);

// The token limit for reasoning; nullopt if no limit is enforced. An optional budget is not enforced if that
// would prevent tool calls, or if the model's reasoning is not parsed.
std::optional<std::int32_t> thinking_budget(const ReasoningWish& wish, std::span<const ToolSpec> tools,
                                            const ApiContext& context, const AnswerParserOptions& parser);

// The token limit of an answer. `asked`: at least 1; nullopt: the rest of the context (at most `otherwise`).
// context_length_exceeded if prompt and answer do not fit.
Result<std::int32_t> token_budget(const ApiContext& context, std::string_view param,
                                  std::size_t prompt_tokens, std::optional<std::int64_t> asked,
                                  std::optional<std::int64_t> otherwise = {});

// The tokens of a text, without a template. `param` names the text in errors.
Result<std::vector<TokenId>> text_prompt_tokens(const ApiContext& context, std::string_view param,
                                                std::string_view text, const EncodeOptions& options);

struct ChatCall {
  Conversation conversation;
  ChatPromptOptions prompt_options;
  SamplingParams sampling;
  Warnings warnings = {};
  AnswerOptions answer;             // prompt and parser are filled in
  std::optional<GrammarSpec> form;  // constraint on the content
  ToolChoice choice;
  ReasoningWish reasoning;
  CacheHint cache_hint;
  std::optional<std::int64_t> max_tokens;
  bool drop_oldest = false;       // drop the oldest messages if too long, instead of refusing
  std::size_t prompt_tokens = 0;  // filled in, even if the prompt is too long
  bool clip_max_tokens = false;   // clip to the context instead of refusing
};
struct ChatRequest {
  Request request;
  std::vector<GrammarSpec> grammars = {};  // constraints on the answer; the first that compiles is used
  bool clipped = false;                    // max_tokens was reduced to fit the context
};
// Makes a request for an existing prompt; the conversation of `call` is ignored.
Result<ChatRequest> make_request(ChatCall& call, std::string_view param, std::vector<TokenId> prompt,
                                 const ApiContext& context);
// Makes a request for the conversation of `call`, which is moved out. Also stores the prompt's tokens in
// `call.answer.prompts`.
Result<ChatRequest> make_chat_request(ChatCall& call, const ApiContext& context);

}  // namespace pagoda
