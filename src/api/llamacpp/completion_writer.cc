#include "api/llamacpp/completion_writer.h"

#include <algorithm>

#include "api/logprob_writer.h"
#include "api/timings.h"
#include "base/json_cursor.h"

namespace pagoda {
namespace {

// The JSON text of a member's value; empty if there is none or `object` is not an object.
std::string_view member(std::string_view object, std::string_view name) {
  std::string_view found, value;
  JsonCursor cursor(object);
  if (cursor.peek() != '{') return found;
  (void)cursor.read_object([&](const std::string& key) {
    const Status status = cursor.raw_value(value);
    if (key == name) found = value;
    return status;
  });
  return found;
}

}  // namespace

std::string llamacpp_error_body(const ApiError& error) {
  std::string_view type = error.status >= 500 ? "server_error" : "invalid_request_error";
  if (error.status == 401) type = "authentication_error";
  if (error.status == 404) type = "not_found_error";
  if (error.status == 503) type = "unavailable_error";
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("error").begin_object().key("code").integer(error.status);
  json.key("message").string(to_valid_utf8(error.message)).key("type").string(type).end_object().end_object();
  return out;
}

LlamaCompletionWriter::LlamaCompletionWriter(LlamaCompletion call, const ApiContext& context)
    : StateWriter(std::move(call.answer), call.stream, context),
      requests_(std::move(call.requests)),
      prompts_(std::move(call.prompts)),
      response_fields_(std::move(call.response_fields)),
      timings_per_token_(call.timings_per_token),
      sent_(state_.num_choices()) {}

Usage LlamaCompletionWriter::usage_of(std::size_t index) const {
  const std::size_t prompt = index / state_.width();
  Usage usage = state_.usage_of(prompt, prompt + 1);
  usage.completion_tokens = state_.choices[index].num_tokens;
  return usage;
}

void LlamaCompletionWriter::write_end(std::size_t index, JsonWriter& json) const {
  const ChoiceState& choice = state_.choices[index];
  const SamplingParams& sampling = requests_[index / state_.width()].sampling;
  const auto* word = std::get_if<std::string>(&choice.stop_reason);
  json.key("model").string(model_name()).key("prompt");
  json.string(to_valid_utf8(prompts_[index / state_.width()]));
  json.key("generation_settings")
      .begin_object()
      .key("n_predict")
      .integer(options_.without_generation ? 0 : sampling.max_tokens);
  json.key("n_ctx").integer(context_.max_model_len);
  json.key("temperature").float32(sampling.temperature).key("top_k").integer(sampling.top_k);
  json.key("top_p").float32(sampling.top_p).key("min_p").float32(sampling.min_p);
  json.key("typical_p").float32(sampling.typical_p);
  json.key("repeat_penalty").float32(sampling.repetition_penalty);
  json.key("presence_penalty").float32(sampling.presence_penalty);
  json.key("frequency_penalty").float32(sampling.frequency_penalty);
  json.key("stop").begin_array();
  for (const std::string& stop : options_.stop) json.string(stop);
  json.end_array().key("stream").boolean(streaming()).end_object();
  json.key("has_new_line").boolean(sent_[index].new_line).key("truncated").boolean(false);
  json.key("stop_type")
      .string(word != nullptr                                ? "word"
              : choice.finish_reason == FinishReason::length ? "limit"
                                                             : "eos");
  json.key("stopping_word").string(word == nullptr ? "" : *word);
  json.key("tokens_cached").integer(usage_of(index).cached_tokens);
}

void LlamaCompletionWriter::write_chosen(std::string_view whole, std::string& out) const {
  JsonWriter json(out);
  json.begin_object();
  for (const std::string_view path : response_fields_) {
    std::string_view value = whole;
    for (std::size_t at = 0; at <= path.size() && !value.empty();) {
      const std::size_t end = std::min(path.find('/', at), path.size());
      value = member(value, path.substr(at, end - at));
      at = end + 1;
    }
    if (!value.empty()) json.key(path).raw(value);
  }
  json.end_object();
}

void LlamaCompletionWriter::write_piece(std::size_t index, std::string& out) {
  ChoiceState& choice = state_.choices[index];
  const bool last = choice.finished();
  ChoiceState::Fresh fresh = std::exchange(choice.fresh, {});
  const Usage usage = usage_of(index);
  sent_[index].new_line = sent_[index].new_line || fresh.text.find('\n') != std::string::npos;
  sent_[index].end = last;
  const std::size_t begin = out.size();
  JsonWriter json(out);
  json.begin_object().key("index").integer(static_cast<std::int64_t>(index));
  json.key("content").string(to_valid_utf8(fresh.text));
  json.key("tokens").integers(fresh.token_ids).key("id_slot").integer(0).key("stop").boolean(last);
  json.key("tokens_predicted")
      .integer(usage.completion_tokens)
      .key("tokens_evaluated")
      .integer(usage.prompt_tokens);
  if (!fresh.logprobs.empty()) {
    json.key("completion_probabilities").begin_array();
    for (const TokenLogprobs& token : fresh.logprobs)
      write_token_logprobs(json, token, *context_.tokenizer,
                           {.with_ids = true, .as_probabilities = options_.after_sampling});
    json.end_array();
  }
  if (last || timings_per_token_) {
    json.key("timings");
    write_timings(json, usage, state_.prompts[index / state_.width()].times);
  }
  if (last) write_end(index, json);
  json.end_object();
  if (last && !response_fields_.empty()) {
    const std::string whole = out.substr(begin);
    out.resize(begin);
    write_chosen(whole, out);
  }
}

void LlamaCompletionWriter::write_events(std::string& out) {
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    const ChoiceState& choice = state_.choices[i];
    const ChoiceState::Fresh& fresh = choice.fresh;
    const bool ends = choice.finished() && !sent_[i].end;
    if (!ends && fresh.text.empty() && fresh.token_ids.empty() && fresh.logprobs.empty()) continue;
    out.append("data: ");
    write_piece(i, out);
    out.append("\n\n");
  }
  if (!state_.error().ok())
    out.append("data: ").append(llamacpp_error_body(api_error(state_.error()))).append("\n\n");
}

void LlamaCompletionWriter::write_body(std::string& out) {
  if (sent_.size() > 1) out.push_back('[');
  for (std::size_t i = 0; i < sent_.size(); ++i) {
    if (i > 0) out.push_back(',');
    write_piece(i, out);
  }
  if (sent_.size() > 1) out.push_back(']');
}

}  // namespace pagoda
