#include "api/openai/response_builder.h"

#include <algorithm>
#include <cmath>

#include "api/errors.h"
#include "api/openai/choice_writer.h"
#include "api/openai/error_body.h"

namespace pagoda {

struct ResponseBuilder::State {
  ResponseOptions options;
  const ApiContext& context;
  ChoiceWriter writer;
  std::vector<ChoiceState> choices;  // prompt * n + sequence
  std::vector<PromptState> prompts;
  std::vector<bool> closed;                  // by choice: its last chunk has been written
  std::vector<std::int32_t> written_tokens;  // by choice: tokens accounted for in its last chunk
  std::vector<SequenceStop> stops;
  std::vector<SequenceDelta> best_so_far;  // by prompt: not yet written; without tokens: nothing new
  Status error;
  std::size_t num_unfinished = 0;
  bool ended = false;  // [DONE], or the body, has been handed out

  State(ResponseOptions call, const ApiContext& api)
      : options(std::move(call)),
        context(api),
        writer(options, *api.tokenizer),
        prompts(options.prompts.size()) {
    choices.reserve(options.prompts.size() * width());
    for (const PromptInfo& prompt : options.prompts)
      for (std::size_t i = 0; i < width(); ++i) choices.emplace_back(options, *context.tokenizer, prompt);
    num_unfinished = choices.size();
    closed.resize(choices.size());
    written_tokens.resize(choices.size());
    best_so_far.resize(prompts.size());
  }

  std::size_t width() const { return static_cast<std::size_t>(options.n); }

  Usage usage_of(std::size_t prompt_begin, std::size_t prompt_end) const {
    Usage usage;
    for (std::size_t p = prompt_begin; p < prompt_end; ++p) {
      usage.prompt_tokens += static_cast<std::int64_t>(options.prompts[p].token_ids.size());
      usage.cached_tokens += prompts[p].num_cached_tokens;
      if (options.without_generation) continue;
      for (std::size_t i = p * width(); i < (p + 1) * width(); ++i)
        usage.completion_tokens += choices[i].num_tokens;
    }
    return usage;
  }
  Usage usage() const { return usage_of(0, prompts.size()); }

  void begin_answer(JsonWriter& json, std::string_view object) const {
    json.begin_object().key("id").string(options.id).key("object").string(object);
    json.key("created").integer(options.created).key("model").string(context.model_names.front());
    if (!context.system_fingerprint.empty())
      json.key("system_fingerprint").string(context.system_fingerprint);
  }

  void write_choice(JsonWriter& json, std::size_t index, bool chunk) {
    const std::size_t prompt = index / width();
    writer.write(json, index, choices[index], options.prompts[prompt], prompts[prompt], chunk);
  }

  // A chat answer has one prompt, so its prompt's tokens stand beside the choices (vLLM).
  void write_prompt_fields(JsonWriter& json) const {
    if (options.return_token_ids && options.prompts.size() == 1)
      json.key("prompt_token_ids").integers(options.prompts.front().token_ids);
    if (options.prompt_logprobs && options.kind == CallKind::chat) {
      json.key("prompt_logprobs");
      writer.write_prompt_logprobs(json, options.prompts.front(), prompts.front());
    }
  }

  bool has_news(std::size_t index) const {
    const ChoiceState& choice = choices[index];
    if (choice.finished()) return !closed[index];
    if (!choice.fresh.text.empty() || !choice.fresh.token_ids.empty() || !choice.fresh.logprobs.empty())
      return true;
    return options.continuous_usage && choice.num_tokens != written_tokens[index];
  }

  // The role comes in a chunk of its own, as OpenAI sends it.
  void write_role_chunk(std::string& out, std::size_t index) {
    out.append("data: ");
    JsonWriter json(out);
    begin_answer(json, "chat.completion.chunk");
    json.key("choices").begin_array().begin_object().key("index").integer(static_cast<std::int64_t>(index));
    json.key("delta").begin_object().key("role").string("assistant").key("content").string("").end_object();
    json.key("finish_reason").null().end_object().end_array();
    write_stream_prompt_ids(json);
    write_continuous_usage(json, index, 0);
    json.end_object();
    out.append("\n\n");
    choices[index].begun = true;
  }

  void write_chunk(std::string& out, std::size_t index) {
    const bool chat = options.kind == CallKind::chat;
    ChoiceState& choice = choices[index];
    if (chat && !choice.begun && !options.echo) write_role_chunk(out, index);
    const bool first = !choice.begun;
    out.append("data: ");
    JsonWriter json(out);
    begin_answer(json, chat ? "chat.completion.chunk" : "text_completion");
    json.key("choices").begin_array();
    write_choice(json, index, /*chunk=*/true);
    json.end_array();
    if (first) write_stream_prompt_ids(json);
    write_continuous_usage(json, index, choice.num_tokens);
    json.end_object();
    out.append("\n\n");
    closed[index] = choice.finished();
    written_tokens[index] = choice.num_tokens;
  }

  // Beside OpenAI's fields, and without a choice, so that who knows nothing of it skips it.
  void write_best_so_far(std::string& out, std::size_t prompt) {
    const SequenceDelta best = std::exchange(best_so_far[prompt], {});
    out.append("data: ");
    JsonWriter json(out);
    begin_answer(json, options.kind == CallKind::chat ? "chat.completion.chunk" : "text_completion");
    json.key("choices").begin_array().end_array().key("best_so_far").begin_object();
    json.key("index").integer(static_cast<std::int64_t>(prompt * width()));
    json.key("text").string(
        to_valid_utf8(context.tokenizer->decode(best.token_ids, options.skip_special_tokens)));
    json.key("cumulative_logprob")
        .float64(std::isfinite(best.cumulative_logprob) ? best.cumulative_logprob : -9999.0);
    json.key("num_tokens").integer(static_cast<std::int64_t>(best.token_ids.size()));
    if (options.return_token_ids) json.key("token_ids").integers(best.token_ids);
    json.end_object().end_object();
    out.append("\n\n");
  }

  void write_continuous_usage(JsonWriter& json, std::size_t index, std::int32_t num_tokens) const {
    if (!options.continuous_usage) return;
    Usage usage = usage_of(index / width(), index / width() + 1);
    usage.completion_tokens = num_tokens;
    json.key("usage");
    ChoiceWriter::write_usage(json, usage);
  }

  void write_stream_prompt_ids(JsonWriter& json) const {
    if (options.return_token_ids && options.prompts.size() == 1)
      json.key("prompt_token_ids").integers(options.prompts.front().token_ids);
  }
};

ResponseBuilder::ResponseBuilder(ResponseOptions options, const ApiContext& context)
    : state_(std::make_unique<State>(std::move(options), context)) {}
ResponseBuilder::~ResponseBuilder() = default;

void ResponseBuilder::add(std::size_t prompt_index, RequestOutput output) {
  State& s = *state_;
  if (finished()) return;
  CHECK(prompt_index < s.prompts.size());
  if (!output.error.ok()) return fail(std::move(output.error));
  PromptState& prompt = s.prompts[prompt_index];
  prompt.num_cached_tokens = std::max(prompt.num_cached_tokens, output.num_cached_tokens);
  if (!output.prompt_logprobs.empty()) prompt.logprobs = std::move(output.prompt_logprobs);

  for (SequenceDelta& delta : output.deltas) {
    if (delta.index == SequenceDelta::kBestSoFar) s.best_so_far[prompt_index] = std::move(delta);
    if (delta.index < 0 || delta.index >= s.options.n) continue;  // a beam or candidate that is not returned
    const std::int32_t sequence = delta.index;
    ChoiceState& choice = s.choices[prompt_index * s.width() + static_cast<std::size_t>(sequence)];
    if (choice.finished()) continue;
    const bool lost =
        delta.finish_reason == FinishReason::abort || delta.finish_reason == FinishReason::error;
    if (choice.absorb(std::move(delta))) s.stops.push_back({prompt_index, sequence});
    if (!choice.finished()) continue;
    --s.num_unfinished;
    if (lost && *choice.finish_reason != FinishReason::stop)
      return fail(unavailable("The request was ended by the server before it was complete."));
  }
  if (!output.finished) return;
  for (std::size_t i = prompt_index * s.width(); i < (prompt_index + 1) * s.width(); ++i)
    if (!s.choices[i].finished())
      return fail(unavailable("The request was ended by the server before it was complete."));
}

void ResponseBuilder::fail(Status error) {
  if (!finished()) state_->error = std::move(error);
}

std::vector<SequenceStop> ResponseBuilder::take_stops() { return std::exchange(state_->stops, {}); }

bool ResponseBuilder::streaming() const { return state_->options.stream; }
bool ResponseBuilder::needs_every_output() const { return streaming() || !state_->options.stop.empty(); }
bool ResponseBuilder::finished() const { return state_->num_unfinished == 0 || !state_->error.ok(); }
const Status& ResponseBuilder::error() const { return state_->error; }

std::string ResponseBuilder::take_events() {
  State& s = *state_;
  std::string out;
  if (s.ended) return out;
  for (std::size_t p = 0; p < s.prompts.size() && !finished(); ++p)
    if (!s.best_so_far[p].token_ids.empty()) s.write_best_so_far(out, p);
  for (std::size_t i = 0; i < s.choices.size(); ++i)
    if (s.has_news(i)) s.write_chunk(out, i);
  if (!finished()) return out;
  s.ended = true;
  if (!s.error.ok()) {
    out.append("data: ").append(openai_error_body(api_error(s.error))).append("\n\n");
  } else if (s.options.include_usage) {
    out.append("data: ");
    JsonWriter json(out);
    s.begin_answer(json, s.options.kind == CallKind::chat ? "chat.completion.chunk" : "text_completion");
    json.key("choices").begin_array().end_array().key("usage");
    ChoiceWriter::write_usage(json, s.usage());
    json.end_object();
    out.append("\n\n");
  }
  out.append("data: [DONE]\n\n");
  return out;
}

std::string ResponseBuilder::body() {
  State& s = *state_;
  CHECK(finished() && s.error.ok());
  std::string out;
  JsonWriter json(out);
  s.begin_answer(json, s.options.kind == CallKind::chat ? "chat.completion" : "text_completion");
  json.key("choices").begin_array();
  for (std::size_t i = 0; i < s.choices.size(); ++i) s.write_choice(json, i, /*chunk=*/false);
  json.end_array().key("usage");
  ChoiceWriter::write_usage(json, s.usage());
  s.write_prompt_fields(json);
  json.end_object();
  return out;
}

bool ResponseBuilder::take(std::string& out, std::size_t) {
  if (streaming()) {
    out.append(take_events());
  } else if (finished() && error().ok() && !std::exchange(state_->ended, true)) {
    out.append(body());
  }
  return false;
}

std::int64_t ResponseBuilder::num_prompt_tokens() const { return state_->usage().prompt_tokens; }
std::int64_t ResponseBuilder::num_completion_tokens() const { return state_->usage().completion_tokens; }

}  // namespace pagoda
