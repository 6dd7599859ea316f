#include "api/openai/request_parser.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <limits>

#include "api/cache_hint_fields.h"
#include "api/chat_call.h"
#include "api/field_reader.h"
#include "api/fill_in_middle.h"
#include "api/grammar_fields.h"
#include "api/held_answer.h"
#include "api/json.h"
#include "api/model_fields.h"
#include "api/openai/chat_messages.h"
#include "api/openai/sampling_fields.h"
#include "api/prompt_limits.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "text/stop_constraint.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPromptIds = std::size_t{1} << 24;
constexpr double kMaxTimeoutS = 1e9;
constexpr std::int64_t kDefaultCompletionTokens = 16;
constexpr std::int64_t kUnbounded = -1;  // as sent by clients of llama.cpp and LM Studio
constexpr std::size_t kMaxListedTokens = 4'000'000;

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// Reads stream, stream_options, echo and how tokens are shown.
void read_response_fields(FieldReader& fields, const CallOrigin& origin, const ApiContext& context,
                          ResponseOptions& response) {
  response.created = origin.created;
  response.stream = fields.boolean("stream").value_or(false);
  if (const json::object* options = fields.object("stream_options")) {
    if (!response.stream) fields.fail("stream_options", "is only allowed when 'stream' is true");
    FieldReader inner(*options, "stream_options");
    response.include_usage = inner.boolean("include_usage").value_or(false);
    response.continuous_usage =
        inner.boolean("continuous_usage_stats").value_or(false) && response.include_usage;
    (void)inner.boolean("include_obfuscation");
    if (!inner.ok()) fields.fail(inner.status());
  }
  response.echo = fields.boolean("echo").value_or(false);
  response.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  response.tokens_as_ids =
      fields.boolean("return_tokens_as_token_ids").value_or(context.return_tokens_as_token_ids);
  // Sent by vLLM's proxies. All other members are private to servers, and K/V is requested from peers in any
  // case.
  if (const json::object* params = fields.object("kv_transfer_params")) {
    FieldReader inner(*params, "kv_transfer_params");
    response.for_remote_decode = inner.boolean("do_remote_decode").value_or(false);
    (void)inner.boolean("do_remote_prefill");
    if (!inner.ok()) fields.fail(inner.status());
  }
  std::string id = fields.string("request_id", 128).value_or("");
  if (!is_printable(id)) fields.fail("request_id", "must be printable ASCII without spaces");
  response.id = concat(response.kind == CallKind::chat ? "chatcmpl-" : "cmpl-", id.empty() ? origin.id : id);
}

void read_request_fields(FieldReader& fields, Request& request) {
  constexpr std::int64_t kLow = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kHigh = std::numeric_limits<std::int32_t>::max();
  request.priority = static_cast<std::int32_t>(fields.integer("priority", kLow, kHigh).value_or(0));
  request.cache_salt = fields.string("cache_salt", 1024).value_or("");
  if (fields.has("cache_salt") && request.cache_salt.empty()) fields.fail("cache_salt", "must not be empty");
  request.cache_hint = read_cache_hint(fields);
}

void refuse_what_is_not_built(FieldReader& fields, CallKind kind) {
  for (const std::string_view name : {"prompt_embeds", "logits_processors", "custom_logit_processor",
                                      "repetition_detection", "lora_path", "adapter_id"})
    fields.not_built(name, "this server does not implement it");
  if (kind == CallKind::completion) return;
  fields.not_built("audio", "this model reads and writes text only");
  fields.not_built("functions", "use 'tools'");
  fields.not_built("function_call", "use 'tool_choice'");
  fields.not_built("moderation", "this server does not implement it");
  fields.not_built("web_search_options", "this server does not implement it");
  if (const json::array* modalities = fields.array("modalities", 8))
    for (const json::value& modality : *modalities)
      if (!modality.is_string() || modality.as_string() != "text")
        fields.not_built("modalities", "this model reads and writes text only");
}

// Reads the prompts of a completion: text, ids, or a list of either.
std::vector<PromptInfo> read_prompts(FieldReader& fields, const ApiContext& context, bool echo) {
  std::vector<PromptInfo> prompts;
  const json::value* prompt = fields.raw("prompt", {"string", "array"});
  if (prompt == nullptr) {
    fields.fail("prompt", "is required");
    return prompts;
  }
  EncodeOptions encode;
  encode.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);

  const std::string suffix = fields.string("suffix", kAnyLength).value_or("");
  if (!suffix.empty() && !prompt->is_string()) fields.fail("suffix", "needs a 'prompt' that is one string");
  if (!fields.ok()) return prompts;

  const auto add_text = [&](const json::string& text, const std::string& path) {
    PromptInfo info;
    info.text.assign(text.data(), text.size());
    Result<std::vector<TokenId>> ids = suffix.empty()
                                           ? text_prompt_tokens(context, path, info.text, encode)
                                           : fill_in_middle_tokens(context, "suffix", info.text, suffix);
    if (!ids) return fields.fail(ids.error());
    info.token_ids = std::move(*ids);
    prompts.push_back(std::move(info));
  };
  const auto add_ids = [&](const json::array& list, const std::string& path) {
    PromptInfo info;
    Result<std::vector<TokenId>> ids = read_token_ids(list, path, context.vocab_size);
    if (!ids) return fields.fail(ids.error());
    info.token_ids = std::move(*ids);
    if (echo) info.text = context.tokenizer->decode(info.token_ids, /*skip_special_tokens=*/false);
    prompts.push_back(std::move(info));
  };

  if (prompt->is_string()) {
    add_text(prompt->as_string(), "prompt");
    return prompts;
  }
  if (!prompt->is_array()) {
    fields.fail("prompt", "must be a string, a list of token ids, or a list of either");
    return prompts;
  }
  const json::array* list = fields.array("prompt", kMaxPromptIds);
  if (list == nullptr) return prompts;
  if (list->empty()) {
    fields.fail("prompt", "must not be empty");
  } else if (list->front().is_number()) {
    add_ids(*list, "prompt");
  } else {
    if (list->size() > kMaxPrompts)
      fields.fail("prompt", concat("must have at most ", kMaxPrompts, " entries"));
    for (std::size_t i = 0; i < list->size() && fields.ok(); ++i) {
      const std::string path = concat("prompt.", i);
      const json::value& entry = (*list)[i];
      if (entry.is_string())
        add_text(entry.as_string(), path);
      else if (entry.is_array())
        add_ids(entry.as_array(), path);
      else
        fields.fail(path, "must be a string or a list of token ids");
    }
  }
  return prompts;
}

// Truncates prompts to their last tokens, if the request asks for it.
void truncate(FieldReader& fields, const ApiContext& context, std::vector<PromptInfo>& prompts, bool echo) {
  const auto limit = fields.integer("truncate_prompt_tokens", -1, context.max_model_len);
  if (!limit) return;
  if (*limit == 0) return fields.fail("truncate_prompt_tokens", "must be -1 or at least 1");
  const auto keep = static_cast<std::size_t>(*limit < 0 ? context.max_model_len : *limit);
  for (PromptInfo& prompt : prompts) {
    if (prompt.token_ids.size() <= keep) continue;
    prompt.token_ids.erase(prompt.token_ids.begin(),
                           prompt.token_ids.end() - static_cast<std::ptrdiff_t>(keep));
    if (echo) prompt.text = context.tokenizer->decode(prompt.token_ids, /*skip_special_tokens=*/false);
  }
}

// Log-probabilities are held until an answer is complete, so their number per call is bounded.
void bound_logprobs(FieldReader& fields, const ParsedCall& call) {
  std::int64_t output_entries = 0, prompt_entries = 0;
  for (const Request& request : call.requests) {
    const SamplingParams& sampling = request.sampling;
    const auto prompt_tokens = static_cast<std::int64_t>(request.prompt_token_ids.size());
    if (sampling.logprobs)
      output_entries += std::int64_t{sampling.max_tokens} * sampling.width() * (*sampling.logprobs + 1);
    if (sampling.prompt_logprobs) prompt_entries += prompt_tokens * (*sampling.prompt_logprobs + 1);
  }
  const std::string problem =
      concat("asks for more than ", kMaxLogprobEntries, " log-probabilities in one call");
  if (output_entries > kMaxLogprobEntries) fields.fail("logprobs", problem);
  if (prompt_entries > kMaxLogprobEntries)
    fields.fail(call.response.prompt_logprobs ? "prompt_logprobs" : "logprobs", problem);
}

// Every prompt's request has its own copy of these lists, so a small body could ask for a gigabyte of them.
void bound_token_lists(FieldReader& fields, const SamplingParams& sampling, std::size_t num_prompts) {
  const std::size_t allowed = num_prompts * sampling.allowed_token_ids.size();
  std::size_t bad = 0;
  for (const std::vector<TokenId>& word : sampling.bad_words) bad += num_prompts * word.size();
  if (allowed + bad <= kMaxListedTokens) return;
  fields.fail(
      allowed > bad ? "allowed_token_ids" : "bad_words",
      concat("times the number of prompts must be at most ", kMaxListedTokens, " tokens in one call"));
}

// Chooses how to parse reasoning and tool calls in the answer, and the grammars that constrain it.
void choose_parser(FieldReader& fields, const ApiContext& context, ChatPrompt& prompt, ParsedCall& call,
                   std::optional<GrammarSpec> form) {
  ResponseOptions& response = call.response;
  response.parallel_calls = fields.boolean("parallel_tool_calls").value_or(true);
  response.include_reasoning = fields.boolean("include_reasoning").value_or(prompt.reasoning.is_returned);
  const bool may_call = !prompt.tools.empty() && prompt.choice.kind != ToolChoice::Kind::none;
  AnswerParserOptions parser = answer_parser_options(context, may_call, prompt.token_ids);
  const AnswerWishes wishes{
      .form = std::move(form),
      .tools = prompt.tools,
      .choice = prompt.choice,
      .parallel_calls = response.parallel_calls,
      .thinking_budget = thinking_budget(prompt.reasoning, prompt.tools, context, parser)};
  Result<std::vector<GrammarSpec>> grammars = hold_answer(wishes, context, parser);
  if (!grammars) return fields.fail(grammars.error());
  call.grammars = *std::move(grammars);
  // llama.cpp's "none": the answer's text unparsed.
  if (fields.string("reasoning_format", 32) == "none") parser.reasoning_parser.clear();
  response.origins = std::move(prompt.origins);
  set_answer_parser(std::move(parser), std::move(prompt.tools), response);
}

std::optional<std::int64_t> read_max_tokens(FieldReader& fields, std::string_view name, bool may_be_none) {
  const std::optional<std::int64_t> count = fields.integer(name, kUnbounded, 1 << 30);
  if (count == 0 && !may_be_none) fields.fail(name, "must be at least 1, or -1 for as many as fit");
  return count;
}

Result<ParsedCall> parse_object(CallKind kind, const json::object& body, const CallOrigin& origin,
                                const ApiContext& context) {
  FieldReader fields(body);
  ParsedCall call;
  ResponseOptions& response = call.response;
  PAGODA_ASSIGN_OR_RETURN(response.adapter, read_model(fields, context));
  read_lora(fields, context, response.adapter);
  response.kind = kind;
  Request request;
  read_response_fields(fields, origin, context, response);
  refuse_what_is_not_built(fields, kind);
  std::optional<GrammarSpec> form = read_grammar(fields, context);
  read_request_fields(fields, request);
  request.adapter = response.adapter;
  read_sampling_fields(fields, context, request.sampling, response, call.warnings);
  (void)fields.string("user", kAnyLength);
  call.timeout_s = fields.number_above("timeout", 0, kMaxTimeoutS);

  const bool echo_without_tokens = kind == CallKind::completion && response.echo;
  std::optional<std::int64_t> max_tokens = read_max_tokens(fields, "max_tokens", echo_without_tokens);
  if (const auto newer = read_max_tokens(fields, "max_completion_tokens", false);
      newer && kind == CallKind::chat)
    max_tokens = newer;
  for (const std::string_view other : {"n_predict", "max_new_tokens"})  // llama.cpp's, SGLang's and TGI's
    if (const auto count = read_max_tokens(fields, other, echo_without_tokens); !max_tokens)
      max_tokens = count;
  const bool unbounded = max_tokens == kUnbounded;
  if (unbounded) max_tokens.reset();
  if (max_tokens && request.sampling.min_tokens > *max_tokens)
    fields.fail("min_tokens", "must not be above 'max_tokens'");
  response.without_generation = max_tokens == 0;
  if (!fields.ok()) return fields.status();

  const std::string param = kind == CallKind::chat ? "messages" : "prompt";
  if (kind == CallKind::chat) {
    ChatPrompt prompt = read_chat_prompt(fields, context);
    if (response.echo) response.echo_prefix = std::move(prompt.continued);
    response.echo = response.echo && !response.echo_prefix.empty();
    if (fields.ok()) choose_parser(fields, context, prompt, call, std::move(form));
    call.warnings.add_all(prompt.warnings);
    response.prompts.push_back({.text = {}, .token_ids = std::move(prompt.token_ids)});
  } else {
    response.prompts = read_prompts(fields, context, response.echo);
    if (form) call.grammars.push_back(*std::move(form));
  }
  if (!fields.ok()) return fields.status();
  truncate(fields, context, response.prompts, response.echo && kind == CallKind::completion);
  const auto sequences = static_cast<std::size_t>(std::max(response.n, request.sampling.best_of));
  if (response.prompts.size() * sequences > kMaxPrompts)
    fields.fail(sequences > static_cast<std::size_t>(response.n) ? "best_of" : "n",
                concat("times the number of prompts must be at most ", kMaxPrompts));

  bound_token_lists(fields, request.sampling, response.prompts.size());
  if (!fields.ok()) return fields.status();

  // echo with logprobs also returns the prompt's: lm-eval scores texts this way.
  if (response.echo && kind == CallKind::completion && response.logprobs && !request.sampling.prompt_logprobs)
    request.sampling.prompt_logprobs = response.logprobs;
  // Other answers are cut at stop strings after the engine. In beam search the engine must know them, because
  // a hypothesis is scored by where it ends.
  if (request.sampling.use_beam_search)
    request.constraint = make_stop_constraint(*context.tokenizer, response.stop);
  for (std::size_t i = 0; i < response.prompts.size(); ++i) {
    const PromptInfo& prompt = response.prompts[i];
    const std::string path = response.prompts.size() == 1 ? param : concat(param, ".", i);
    const std::optional<std::int64_t> otherwise = kind == CallKind::completion && !unbounded
                                                      ? std::optional<std::int64_t>(kDefaultCompletionTokens)
                                                      : std::nullopt;
    const Result<std::int32_t> budget =
        token_budget(context, path, prompt.token_ids.size(), max_tokens, otherwise);
    if (!budget) return budget.error();
    request.sampling.max_tokens = std::max(*budget, 1);
    if (request.sampling.min_tokens > request.sampling.max_tokens && fields.ok())
      fields.fail("min_tokens", concat("must not be above the ", request.sampling.max_tokens,
                                       " tokens that the answer may have; see 'max_tokens'"));
    if (!fields.ok()) return fields.status();
    request.prompt_token_ids = prompt.token_ids;
    call.requests.push_back(request);
  }
  bound_logprobs(fields, call);
  if (!fields.ok()) return fields.status();
  note_unknown_fields(fields, call.warnings, {"store",          "metadata",
                                              "service_tier",   "reasoning_effort",
                                              "verbosity",      "safety_identifier",
                                              "top_logprobs",   "tool_choice",
                                              "tools",          "modalities",
                                              "stream_options", "max_completion_tokens",
                                              "deadline_ms",    "timeout",
                                              "cache_prompt",   "id_slot",
                                              "slot_id",        "n_keep",
                                              "n_discard",      "n_cache_reuse"});
  return call;
}

}  // namespace

Result<ParsedCall> parse_call(CallKind kind, std::string_view body, const CallOrigin& origin,
                              const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  return parse_object(kind, value->as_object(), origin, context);
}

}  // namespace pagoda
