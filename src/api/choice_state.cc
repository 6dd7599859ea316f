#include "api/choice_state.h"

#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/ends.h"

namespace pagoda {

ChoiceState::ChoiceState(const AnswerOptions& options, const Tokenizer& tokenizer, const PromptInfo& prompt)
    : options_(options),
      tokenizer_(tokenizer),
      // With a parser, special tokens bypass the detokenizer: the parser interprets them.
      detokenizer_(tokenizer, options.skip_special_tokens || options.parser.has_value(), prompt.token_ids),
      stop_matcher_(options.stop, options.include_stop) {
  if (!options.parser) return;
  Result<AnswerParser> parser = AnswerParser::create(*options.parser);
  CHECK(parser);  // the names were checked at startup
  parser_ = *std::move(parser);
  in_reasoning_ = options.parser->starts_in_reasoning.value_or(false);
}

bool ChoiceState::push_token(TokenId id) {
  if (!parser_ || !tokenizer_.is_special(id)) return push_text(detokenizer_.push(id), id);
  if (push_text(detokenizer_.push(id), id)) return true;
  parse({.text = stop_matcher_.finish(), .token = id});  // no stop string spans a special token
  parse({.text = tokenizer_.token_bytes(id), .token = id, .special = true});
  if (repeated_) finish_reason = FinishReason::stop;
  return repeated_;
}

bool ChoiceState::push_text(const std::string& text, TokenId id) {
  StopMatcher::Outcome outcome = stop_matcher_.push(text, num_tokens > options_.min_tokens);
  parse({.text = outcome.text, .token = id});
  if (repeated_) {
    finish_reason = FinishReason::stop;
    return true;
  }
  if (!outcome.stop_string) return false;
  stop_reason = std::move(*outcome.stop_string);
  finish_reason = FinishReason::stop;
  if (parser_) parser_->finish(events_);
  gather();
  release();
  return true;
}

void ChoiceState::end(FinishReason reason) {
  constexpr TokenId kNone = -1;
  if (push_text(detokenizer_.finish(), kNone)) return;  // the held-back text completed a stop string
  parse({.text = stop_matcher_.finish(), .token = kNone});
  if (parser_) parser_->finish(events_);
  gather();
  release();
  finish_reason = reason;
}

void ChoiceState::parse(const AnswerPiece& piece) {
  if (!parser_) {
    fresh.text.append(piece.text);
    if (!piece.text.empty()) settle_logprobs(piece.text.size());
    return;
  }
  parser_->push(piece, events_);
  gather();
}

void ChoiceState::gather() {
  for (AnswerEvent& event : std::exchange(events_, {})) {
    in_reasoning_ = event.kind == AnswerEvent::Kind::reasoning;
    settle_logprobs(event.kind == AnswerEvent::Kind::content ? event.text.size() : 0);
    if (repeated_) continue;
    if (options_.parser->calls_forced && event.call >= 0)
      watch(std::move(event));
    else
      apply(event);
  }
}

void ChoiceState::watch(AnswerEvent event) {
  switch (event.kind) {
    case AnswerEvent::Kind::call_begun:
      release();
      current_ = {.name = event.text, .arguments = {}};
      holds_ = event.call > 0 && current_.name == last_.name;
      break;
    case AnswerEvent::Kind::call_arguments:
      current_.arguments.append(event.text);
      break;
    case AnswerEvent::Kind::call_ended:
      repeated_ = holds_ && current_.says_the_same(last_);
      if (repeated_) return held_.clear();
      release();
      last_ = std::exchange(current_, {});
      break;
    default:
      break;
  }
  if (holds_)
    held_.push_back(std::move(event));
  else
    apply(event);
}

void ChoiceState::release() {
  holds_ = false;
  for (AnswerEvent& event : std::exchange(held_, {})) apply(event);
}

void ChoiceState::apply(AnswerEvent& event) {
  const bool is_returned = event.call < 1 || options_.parallel_calls;
  switch (event.kind) {
    case AnswerEvent::Kind::content:
      fresh.text.append(event.text);
      break;
    case AnswerEvent::Kind::reasoning:
      if (options_.include_reasoning) fresh.reasoning.append(event.text);
      break;
    case AnswerEvent::Kind::call_begun:
      if (is_returned) begin_call(event);
      break;
    case AnswerEvent::Kind::call_arguments:
      if (!is_returned) break;
      add_arguments(event.call,
                    origin_ != nullptr && origin_->custom ? input_.push(event.text) : std::move(event.text));
      break;
    case AnswerEvent::Kind::call_ended:
      if (is_returned && origin_ != nullptr && origin_->custom) add_arguments(event.call, input_.finish());
      break;
  }
}

void ChoiceState::begin_call(AnswerEvent& event) {
  ++num_calls;
  const auto origin = options_.origins.find(event.text);
  origin_ = origin == options_.origins.end() ? nullptr : &origin->second;
  input_ = {};
  fresh.calls.push_back({.index = event.call,
                         .name = origin_ == nullptr ? std::move(event.text) : origin_->name,
                         .id = std::move(event.call_id),
                         .arguments = {},
                         .origin = origin_});
}

void ChoiceState::add_arguments(std::int32_t call, std::string text) {
  if (text.empty()) return;
  if (const CallPiece* last = last_of(fresh.calls); last == nullptr || last->index != call)
    fresh.calls.push_back({.index = call, .name = {}, .id = {}, .arguments = {}, .origin = origin_});
  fresh.calls.back().arguments.append(text);
}

void ChoiceState::keep_logprobs(TokenLogprobs logprobs, bool is_text) {
  const bool markup =
      tokenizer_.is_special(logprobs.chosen.token) && (parser_.has_value() || options_.skip_special_tokens);
  if (!options_.content_logprobs)
    fresh.logprobs.push_back(std::move(logprobs));
  else if (is_text && !markup)
    unsettled_.push_back(std::move(logprobs));
}

// Called after `bytes` of content were emitted. The last tokens make up this content; earlier unsettled
// tokens are markup.
void ChoiceState::settle_logprobs(std::size_t bytes) {
  auto first = unsettled_.end();
  for (std::size_t covered = 0; covered < bytes && first != unsettled_.begin();)
    covered += tokenizer_.token_bytes((--first)->chosen.token).size();
  std::move(first, unsettled_.end(), std::back_inserter(fresh.logprobs));
  unsettled_.clear();
}

bool ChoiceState::absorb(SequenceDelta&& delta) {
  if (finished()) return false;
  if (options_.without_generation) {
    if (delta.finish_reason) finish_reason = FinishReason::length;
    return false;
  }
  // A token that ends the sequence is counted and listed, but is text only if requested. A token that
  // completed a stop string while beam search continued is text, up to the stop string.
  const bool by_text = !options_.stop.empty() && !delta.stop_token && !delta.token_ids.empty() &&
                       !tokenizer_.is_special(delta.token_ids.back());
  const bool ends_by_token = delta.finish_reason == FinishReason::stop && !options_.include_stop && !by_text;
  const bool has_logprobs = options_.logprobs && delta.logprobs.size() == delta.token_ids.size();
  double later_logprobs = 0;  // sum over tokens after the one that completed a stop string
  bool stopped = false;
  for (std::size_t i = 0; i < delta.token_ids.size(); ++i) {
    if (stopped) {
      if (has_logprobs) later_logprobs += static_cast<double>(delta.logprobs[i].chosen.logprob);
      continue;
    }
    const TokenId id = delta.token_ids[i];
    ++num_tokens;
    if (options_.return_token_ids) fresh.token_ids.push_back(id);
    const bool is_text = !(ends_by_token && i + 1 == delta.token_ids.size());
    if (has_logprobs) keep_logprobs(std::move(delta.logprobs[i]), is_text);
    if (is_text) stopped = push_token(id);
    num_reasoning_tokens += in_reasoning_;
  }
  cumulative_logprob = delta.cumulative_logprob - later_logprobs;
  if (stopped) return !delta.finish_reason.has_value();
  if (delta.finish_reason) {
    if (delta.stop_token) stop_reason = *delta.stop_token;
    end(*delta.finish_reason);
  }
  return false;
}

}  // namespace pagoda
