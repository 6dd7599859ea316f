#include "api/choice_state.h"

#include <iterator>

namespace pagoda {

ChoiceState::ChoiceState(const AnswerOptions& options, const Tokenizer& tokenizer, const PromptInfo& prompt)
    : options_(options),
      detokenizer_(tokenizer, options.skip_special_tokens, prompt.token_ids),
      stop_matcher_(options.stop, options.include_stop) {}

bool ChoiceState::push_text(const std::string& text) {
  StopMatcher::Outcome outcome = stop_matcher_.push(text, num_tokens > options_.min_tokens);
  fresh.text.append(outcome.text);
  if (!outcome.stop_string) return false;
  finish_reason = FinishReason::stop;
  stop_reason = std::move(*outcome.stop_string);
  return true;
}

void ChoiceState::end(FinishReason reason) {
  if (push_text(detokenizer_.finish())) return;  // the held-back end completed a stop string
  fresh.text.append(stop_matcher_.finish());
  finish_reason = reason;
}

bool ChoiceState::absorb(SequenceDelta&& delta) {
  if (finished()) return false;
  // A token that ends the sequence is counted and listed, but is no text unless asked for.
  const bool ends_by_token = delta.finish_reason == FinishReason::stop && !options_.include_stop;
  const bool keep_logprobs = options_.logprobs && delta.logprobs.size() == delta.token_ids.size();
  double later_logprobs = 0;  // of tokens after the one that completed a stop string
  bool stopped = false;
  for (std::size_t i = 0; i < delta.token_ids.size(); ++i) {
    if (stopped) {
      if (keep_logprobs) later_logprobs += static_cast<double>(delta.logprobs[i].chosen.logprob);
      continue;
    }
    const TokenId id = delta.token_ids[i];
    ++num_tokens;
    if (options_.return_token_ids) fresh.token_ids.push_back(id);
    if (keep_logprobs) fresh.logprobs.push_back(std::move(delta.logprobs[i]));
    const bool is_text = !(ends_by_token && i + 1 == delta.token_ids.size());
    if (is_text) stopped = push_text(detokenizer_.push(id));
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
