#include "api/chat_call.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "api/fitted_prompt.h"
#include "api/prompt_limits.h"
#include "base/strings.h"
#include "text/answer_formats.h"
#include "text/call_shape.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr float kMinTemperature = 0.01f;                       // as in vLLM: below it logits could overflow
constexpr float kMinTopP = std::numeric_limits<float>::min();  // 0 keeps the most likely token, as at OpenAI
constexpr std::size_t kMaxStops = 128, kMaxStopBytes = 1024;

}  // namespace

SamplingParams default_sampling(const ApiContext& context) {
  SamplingParams sampling;
  const SamplingDefaults& defaults = context.defaults;
  assign_if_given(sampling.temperature, defaults.temperature);
  assign_if_given(sampling.top_p, defaults.top_p);
  assign_if_given(sampling.top_k, defaults.top_k);
  assign_if_given(sampling.min_p, defaults.min_p);
  assign_if_given(sampling.repetition_penalty, defaults.repetition_penalty);
  sampling.eos_token_ids = context.eos_token_ids;
  return sampling;
}

void read_sampling(FieldReader& fields, const SamplingNames& names, SamplingParams& sampling) {
  const auto number = [&](std::string_view name, double low, double high, float& value) {
    if (!name.empty()) assign_if_given(value, fields.number(name, low, high));
  };
  number(names.temperature, names.negative_is_greedy ? -100 : 0, 100, sampling.temperature);
  sampling.temperature = std::max(sampling.temperature, 0.0f);
  if (sampling.temperature > 0) sampling.temperature = std::max(sampling.temperature, kMinTemperature);
  number(names.min_p, 0, 1, sampling.min_p);
  number(names.presence_penalty, -2, 2, sampling.presence_penalty);
  number(names.frequency_penalty, -2, 2, sampling.frequency_penalty);
  number(names.top_p, 0, 1, sampling.top_p);
  sampling.top_p = std::max(sampling.top_p, kMinTopP);
  if (!names.repetition_penalty.empty())
    assign_if_given(sampling.repetition_penalty, fields.number_above(names.repetition_penalty, 0, 100));
  if (!names.top_k.empty()) assign_if_given(sampling.top_k, fields.integer(names.top_k, -1, kMaxInt32));
  // A seed may use all 64 bits; -1 means no seed in all protocols.
  const boost::json::value* seed = names.seed.empty() ? nullptr : fields.raw(names.seed, {"integer"});
  if (seed == nullptr) return;
  if (seed->is_uint64())
    sampling.seed = seed->as_uint64();
  else if (const std::optional<std::int64_t> whole = whole_number(*seed)) {
    if (*whole != -1) sampling.seed = static_cast<std::uint64_t>(*whole);
  } else
    fields.fail(names.seed, "must be a whole number of at most 64 bits");
}

void read_stops(FieldReader& fields, std::string_view name, AnswerOptions& answer) {
  answer.stop = fields.strings(name, kMaxStops, kMaxStopBytes);
}

AnswerParserOptions answer_parser_options(const ApiContext& context, bool may_call,
                                          std::span<const TokenId> prompt) {
  constexpr std::size_t kTail = 16;  // number of final tokens in which a template may open reasoning
  AnswerParserOptions parser;
  parser.reasoning_parser = context.reasoning_parser;
  if (may_call) parser.tool_parser = context.tool_parser;
  if (!parser.reasoning_parser.empty()) {
    const auto tail = prompt.last(std::min(kTail, prompt.size()));
    parser.starts_in_reasoning =
        prompt_opens_reasoning(parser.reasoning_parser, context.tokenizer->decode(tail, false));
  }
  return parser;
}

void set_answer_parser(AnswerParserOptions parser, std::vector<ToolSpec> declared, AnswerOptions& answer) {
  if (parser.tool_parser.empty() && parser.reasoning_parser.empty()) return;
  std::vector<DeclaredTool> tools;
  for (ToolSpec& tool : declared)
    tools.push_back({.name = std::move(tool.name), .parameters = std::move(tool.parameters)});
  parser.tools = std::make_shared<const std::vector<DeclaredTool>>(std::move(tools));
  parser.keep_special_tokens = !answer.skip_special_tokens;
  answer.parser = std::move(parser);
}

std::optional<std::int32_t> thinking_budget(const ReasoningWish& wish, std::span<const ToolSpec> tools,
                                            const ApiContext& context, const AnswerParserOptions& parser) {
  if (!wish.budget || wish.budget_is_rule) return wish.budget;
  if (wish.thinks == false || context.grammars == nullptr || parser.reasoning_parser.empty()) return {};
  const ReasoningShape reasoning = reasoning_shape(parser.reasoning_parser);
  if (reasoning.end.empty() || reasoning.by_token) return {};
  if (tools.empty() || parser.tool_parser.empty()) return wish.budget;
  // While reasoning is constrained, the grammar allows no special token that it does not name. So tool calls
  // that open with a special token would be impossible.
  const Tokenizer& tokenizer = *context.tokenizer;
  const CallShape* calls = find_call_shape(
      parser.tool_parser, [&](std::string_view token) { return tokenizer.find(token).has_value(); });
  if (calls == nullptr) return {};
  const std::optional<TokenId> marker = tokenizer.find(calls->opening());
  return marker && tokenizer.is_special(*marker) ? std::nullopt : wish.budget;
}

Result<std::int32_t> token_budget(const ApiContext& context, std::string_view param,
                                  std::size_t prompt_tokens, std::optional<std::int64_t> asked,
                                  std::optional<std::int64_t> otherwise) {
  const auto length = static_cast<std::int64_t>(prompt_tokens);
  const std::int64_t room = context.max_model_len - length;
  if (length == 0)
    return invalid_argument(concat("'", param, "' must have at least one token."))
        .with_param(std::string(param));
  if (room < std::max<std::int64_t>(asked.value_or(1), 1))
    return context_length_exceeded(
        context, param,
        concat("However, you requested ", length + asked.value_or(1), " tokens (", length, " in the ", param,
               ", ", asked.value_or(1), " in the completion). Please reduce the length of the ", param,
               " or completion."));
  if (asked) return static_cast<std::int32_t>(*asked);
  std::int64_t budget = room;
  if (context.defaults.max_tokens)
    budget = std::min<std::int64_t>(budget, *context.defaults.max_tokens);
  else if (otherwise)
    budget = std::min(budget, *otherwise);
  return static_cast<std::int32_t>(budget);
}

Result<std::vector<TokenId>> text_prompt_tokens(const ApiContext& context, std::string_view param,
                                                std::string_view text, const EncodeOptions& options) {
  if (exceeds_byte_bound(context, text.size()))
    return context_length_exceeded(context, param, "Your prompt is longer than that; please shorten it.");
  Result<std::vector<TokenId>> ids = context.tokenizer->encode(text, options);
  if (!ids)
    return invalid_argument(concat("'", param, "' cannot be tokenized.")).with_param(std::string(param));
  return ids;
}

namespace {

// A requested form is never ignored: it is enforced or refused with a reason.
Status check_form(const ChatCall& call, const ApiContext& context) {
  if (!call.form || context.grammars != nullptr) return ok_status();
  return unimplemented(
             concat("'", call.form->param, "' is not supported: this build has no structured output."))
      .with_param(call.form->param)
      .with_reason("unsupported_parameter");
}

}  // namespace

Result<ChatRequest> make_request(ChatCall& call, std::string_view param, std::vector<TokenId> prompt,
                                 const ApiContext& context) {
  const auto room =
      static_cast<std::int64_t>(context.max_model_len) - static_cast<std::int64_t>(prompt.size());
  PAGODA_RETURN_IF_ERROR(check_form(call, context));
  call.prompt_tokens = prompt.size();
  ChatRequest out;
  if (call.form) out.grammars.push_back(*std::move(call.form));
  std::optional<std::int64_t> asked = call.max_tokens;
  if (asked && call.clip_max_tokens && *asked > room) {
    out.clipped = true;
    asked = std::max<std::int64_t>(room, 1);
  }
  const Result<std::int32_t> budget = token_budget(context, param, prompt.size(), asked);
  if (!budget) return budget.error();
  out.request.sampling = std::move(call.sampling);
  out.request.cache_hint = std::move(call.cache_hint);
  out.request.sampling.max_tokens = *budget;
  out.request.prompt_token_ids = prompt;
  out.request.adapter = call.answer.adapter;
  call.answer.prompts.push_back({.text = {}, .token_ids = std::move(prompt)});
  return out;
}

Result<ChatRequest> make_chat_request(ChatCall& call, const ApiContext& context) {
  PAGODA_RETURN_IF_ERROR(check_form(call, context));
  std::vector<ToolSpec> tools = call.conversation.tools;
  Result<std::vector<TokenId>> ids =
      call.drop_oldest ? fitted_prompt_tokens(call.conversation, call.max_tokens.value_or(1), context,
                                              call.prompt_options, call.warnings)
                       : chat_prompt_tokens(std::move(call.conversation), context, call.prompt_options);
  if (!ids) return ids.error();
  AnswerParserOptions parser = answer_parser_options(context, !tools.empty(), *ids);
  const std::optional<std::int32_t> budget = thinking_budget(call.reasoning, tools, context, parser);
  Result<std::vector<GrammarSpec>> grammars = hold_answer({.form = std::exchange(call.form, std::nullopt),
                                                           .tools = tools,
                                                           .choice = call.choice,
                                                           .parallel_calls = call.answer.parallel_calls,
                                                           .thinking_budget = budget},
                                                          context, parser);
  if (!grammars) return grammars.error();
  set_answer_parser(std::move(parser), std::move(tools), call.answer);
  Result<ChatRequest> out = make_request(call, "messages", *std::move(ids), context);
  if (out) out->grammars = *std::move(grammars);
  return out;
}

}  // namespace pagoda
