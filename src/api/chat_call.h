#pragma once
// ChatCall: a conversation and what is wanted of its answer -> one request of the engine. Between the fields
// of a protocol, which are its own business, and chat_prompt_tokens.h: here is what all of them do in
// between, so that the same conversation gives the same tokens whichever way it came. Errors:
// invalid_argument with a param() in the words of Conversation, or "max_tokens". Threads: any.
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

// Defaults of a request: generation_config.json's values, and the model's ends of turns.
SamplingParams default_sampling(const ApiContext& context);

// The sampling fields by the names that a protocol has for them; an empty name: it has none.
struct SamplingNames {
  std::string_view temperature = "temperature", top_p = "top_p", top_k = "top_k", min_p = {};
  std::string_view repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {}, seed = {};
};
void read_sampling(FieldReader& fields, const SamplingNames& names, SamplingParams& sampling);
// "stop", or whatever it is called.
void read_stops(FieldReader& fields, std::string_view name, AnswerOptions& answer);

// How the answer's reasoning, and its calls if it may have any, are to be read after this prompt.
AnswerParserOptions answer_parser_options(const ApiContext& context, bool may_call,
                                          std::span<const TokenId> prompt);
// The answer is read so, with these tools declared; as it comes where neither format is known.
void set_answer_parser(AnswerParserOptions parser, std::vector<ToolSpec> tools, AnswerOptions& answer);

// How many tokens the reasoning may have, where that is to be held: a budget that is no rule is left to the
// model where holding it would keep its tool calls from being written, or its reasoning is not told apart.
std::optional<std::int32_t> thinking_budget(const ReasoningWish& wish, std::span<const ToolSpec> tools,
                                            const ApiContext& context, const AnswerParserOptions& parser);

// How many tokens an answer may have. `asked`: at least one, or what is left of the context (at most
// `otherwise`). context_length_exceeded where there is no room for them.
Result<std::int32_t> token_budget(const ApiContext& context, std::string_view param,
                                  std::size_t prompt_tokens, std::optional<std::int64_t> asked,
                                  std::optional<std::int64_t> otherwise = {});

// The tokens of a text as it is. `param` names it in errors.
Result<std::vector<TokenId>> text_prompt_tokens(const ApiContext& context, std::string_view param,
                                                std::string_view text, const EncodeOptions& options);

struct ChatCall {
  Conversation conversation;
  ChatPromptOptions prompt_options;
  SamplingParams sampling;
  Warnings warnings = {};
  AnswerOptions answer;             // its prompt and parser are filled in
  std::optional<GrammarSpec> form;  // form of the content
  ToolChoice choice;
  ReasoningWish reasoning;
  CacheHint cache_hint;
  std::optional<std::int64_t> max_tokens;
  bool drop_oldest = false;       // messages of a conversation that is too long, instead of refusing it
  std::size_t prompt_tokens = 0;  // filled in, also where the prompt is too long
  bool clip_max_tokens = false;   // clip to the context instead of refusing
};
struct ChatRequest {
  Request request;
  std::vector<GrammarSpec> grammars = {};  // that hold the answer: the first that compiles
  bool clipped = false;                    // fewer tokens than were asked for
};
// The same for a prompt that is there already: `call`'s conversation is not looked at.
Result<ChatRequest> make_request(ChatCall& call, std::string_view param, std::vector<TokenId> prompt,
                                 const ApiContext& context);
// Takes the conversation. The prompt's tokens stand in `call.answer.prompts`, too.
Result<ChatRequest> make_chat_request(ChatCall& call, const ApiContext& context);

}  // namespace pagoda
