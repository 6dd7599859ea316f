#include "api/tgi/tgi_writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "api/logprob_writer.h"

namespace pagoda {
namespace {

std::string_view reason_of(const ChoiceState& choice) {
  if (choice.finish_reason == FinishReason::length) return "length";
  return std::holds_alternative<std::string>(choice.stop_reason) ? "stop_sequence" : "eos_token";
}

void write_token(JsonWriter& json, TokenId id, std::string_view text, const TokenLogprob* logprob,
                 const Tokenizer& tokenizer) {
  json.begin_object().key("id").integer(id).key("text").string(to_valid_utf8(text)).key("logprob");
  if (logprob == nullptr)
    json.null();
  else
    json.float32(writable_logprob(logprob->logprob));
  json.key("special").boolean(tokenizer.is_special(id)).end_object();
}

void write_top(JsonWriter& json, const TokenLogprobs& logprobs, const Tokenizer& tokenizer) {
  json.begin_array();
  for (const TokenLogprob& each : logprobs.top)
    write_token(json, each.token, written_token(each.token, tokenizer, false), &each, tokenizer);
  json.end_array();
}

}  // namespace

std::string tgi_error_body(const ApiError& error) {
  const std::string_view type = error.status == 429   ? "overloaded"
                                : error.status >= 500 ? "generation"
                                                      : "validation";
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("error").string(to_valid_utf8(error.message)).key("error_type").string(type);
  json.end_object();
  return out;
}

TgiWriter::TgiWriter(TgiCall call, bool in_list, const ApiContext& context)
    : StateWriter(std::move(call.answer), call.stream, context),
      inputs_(std::move(call.inputs)),
      prompt_(std::move(call.request.prompt_token_ids)),
      seed_(call.seed),
      num_top_(call.num_top),
      details_(call.details),
      prefill_(call.prefill),
      in_list_(in_list),
      stream_(*context.tokenizer, /*skip_special_tokens=*/false, prompt_) {}

void TgiWriter::write_end(const ChoiceState& choice, JsonWriter& json) const {
  json.key("finish_reason").string(reason_of(choice)).key("generated_tokens").integer(choice.num_tokens);
  json.key("seed");
  if (seed_)
    json.raw(std::to_string(*seed_));
  else
    json.null();
}

void TgiWriter::write_event(TokenId id, const std::string& text, const TokenLogprobs* logprobs, bool last,
                            std::string& out) {
  const Tokenizer& tokenizer = *context_.tokenizer;
  out.append("data:");
  JsonWriter json(out);
  json.begin_object().key("index").integer(++num_events_).key("token");
  write_token(json, id, text, logprobs == nullptr ? nullptr : &logprobs->chosen, tokenizer);
  if (num_top_ > 0 && logprobs != nullptr) write_top(json.key("top_tokens"), *logprobs, tokenizer);
  json.key("generated_text");
  if (last)
    json.string(inputs_ + to_valid_utf8(text_));
  else
    json.null();
  json.key("details");
  if (last && details_) {
    json.begin_object();
    write_end(state_.choices.front(), json);
    json.key("input_length").integer(static_cast<std::int64_t>(prompt_.size())).end_object();
  } else {
    json.null();
  }
  json.end_object();
  out.append("\n\n");
}

void TgiWriter::write_events(std::string& out) {
  ChoiceState& choice = state_.choices.front();
  const ChoiceState::Fresh fresh = std::exchange(choice.fresh, {});
  text_.append(fresh.text);
  const bool ended = choice.finished() && state_.error().ok();
  for (std::size_t i = 0; i < fresh.token_ids.size(); ++i) {
    const bool last = ended && i + 1 == fresh.token_ids.size();
    std::string text = stream_.push(fresh.token_ids[i]);
    if (last) text.append(stream_.finish());
    write_event(fresh.token_ids[i], text, i < fresh.logprobs.size() ? &fresh.logprobs[i] : nullptr, last,
                out);
  }
  // Every event needs a token: an end without a new token is sent with the end-of-sequence token.
  if (ended && fresh.token_ids.empty()) {
    const TokenId eos = std::max(context_.tokenizer->eos(), TokenId{0});
    write_event(eos, stream_.finish(), nullptr, true, out);
  }
  if (!state_.error().ok())
    out.append("data:").append(tgi_error_body(api_error(state_.error()))).append("\n\n");
}

void TgiWriter::write_prefill(JsonWriter& json) const {
  const Tokenizer& tokenizer = *context_.tokenizer;
  json.key("prefill").begin_array();
  const auto& logprobs = state_.prompts.front().logprobs;
  for (std::size_t i = 0; prefill_ && i < prompt_.size(); ++i) {
    json.begin_object().key("id").integer(prompt_[i]);
    json.key("text").string(written_token(prompt_[i], tokenizer, false)).key("logprob");
    if (i < logprobs.size() && logprobs[i])
      json.float32(writable_logprob(logprobs[i]->chosen.logprob));
    else
      json.null();
    json.end_object();
  }
  json.end_array();
}

void TgiWriter::write_tokens(std::size_t index, JsonWriter& json) const {
  const ChoiceState& choice = state_.choices[index];
  const ChoiceState::Fresh& fresh = choice.fresh;
  const Tokenizer& tokenizer = *context_.tokenizer;
  write_end(choice, json);
  write_prefill(json);
  json.key("tokens").begin_array();
  IncrementalDetokenizer detokenizer(tokenizer, /*skip_special_tokens=*/false, prompt_);
  for (std::size_t i = 0; i < fresh.token_ids.size(); ++i) {
    std::string text = detokenizer.push(fresh.token_ids[i]);
    if (i + 1 == fresh.token_ids.size()) text.append(detokenizer.finish());
    write_token(json, fresh.token_ids[i], text,
                i < fresh.logprobs.size() ? &fresh.logprobs[i].chosen : nullptr, tokenizer);
  }
  json.end_array();
  if (num_top_ == 0) return;
  json.key("top_tokens").begin_array();
  for (const TokenLogprobs& each : fresh.logprobs) write_top(json, each, tokenizer);
  json.end_array();
}

void TgiWriter::write_body(std::string& out) {
  std::vector<std::size_t> order(state_.num_choices());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto best = std::ranges::max_element(order, {}, [this](std::size_t index) {
    const ChoiceState& choice = state_.choices[index];
    return choice.cumulative_logprob / std::max(choice.num_tokens, 1);
  });
  std::rotate(order.begin(), best, best + 1);
  const auto text = [this](std::size_t index) {
    return inputs_ + to_valid_utf8(state_.choices[index].fresh.text);
  };
  JsonWriter json(out);
  if (in_list_) json.begin_array();
  json.begin_object().key("generated_text").string(text(order.front()));
  if (details_) {
    json.key("details").begin_object();
    write_tokens(order.front(), json);
    if (order.size() > 1) {
      json.key("best_of_sequences").begin_array();
      for (const std::size_t index : std::span(order).subspan(1)) {
        json.begin_object().key("generated_text").string(text(index));
        write_tokens(index, json);
        json.end_object();
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_object();
  if (in_list_) json.end_array();
}

}  // namespace pagoda
