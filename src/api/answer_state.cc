#include "api/answer_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {

AnswerState::AnswerState(const AnswerOptions& options, const Tokenizer& tokenizer)
    : prompts(options.prompts.size()), best_so_far(options.prompts.size()), options_(options) {
  choices.reserve(options.prompts.size() * width());
  for (const PromptInfo& prompt : options.prompts)
    for (std::size_t i = 0; i < width(); ++i) choices.emplace_back(options, tokenizer, prompt);
  num_unfinished_ = choices.size();
}

Usage AnswerState::usage_of(std::size_t prompt_begin, std::size_t prompt_end) const {
  Usage usage;
  for (std::size_t p = prompt_begin; p < prompt_end; ++p) {
    usage.prompt_tokens += static_cast<std::int64_t>(options_.prompts[p].token_ids.size());
    usage.cached_tokens += prompts[p].num_cached_tokens;
    for (std::size_t i = p * width(); i < (p + 1) * width(); ++i) {
      usage.completion_tokens += choices[i].num_tokens;
      usage.reasoning_tokens += choices[i].num_reasoning_tokens;
    }
  }
  return usage;
}

RequestTimes AnswerState::times() const {
  RequestTimes latest;
  for (const PromptState& prompt : prompts)
    if (prompt.times.last_token >= latest.last_token) latest = prompt.times;
  return latest;
}

void AnswerState::add(std::size_t prompt_index, RequestOutput output) {
  if (finished()) return;
  CHECK(prompt_index < prompts.size());
  if (!output.error.ok()) return fail(std::move(output.error));
  PromptState& prompt = prompts[prompt_index];
  prompt.times = output.times;
  prompt.num_cached_tokens = std::max(prompt.num_cached_tokens, output.num_cached_tokens);
  if (!output.prompt_logprobs.empty()) prompt.logprobs = std::move(output.prompt_logprobs);

  for (SequenceDelta& delta : output.deltas) {
    if (delta.index == SequenceDelta::kBestSoFar) best_so_far[prompt_index] = std::move(delta);
    if (delta.index < 0 || delta.index >= options_.n) continue;  // a beam or candidate that is not returned
    const std::int32_t sequence = delta.index;
    ChoiceState& choice = choices[prompt_index * width() + static_cast<std::size_t>(sequence)];
    if (choice.finished()) continue;
    const bool lost =
        delta.finish_reason == FinishReason::abort || delta.finish_reason == FinishReason::error;
    if (choice.absorb(std::move(delta))) stops_.push_back({prompt_index, sequence});
    if (!choice.finished()) continue;
    --num_unfinished_;
    if (lost && *choice.finish_reason != FinishReason::stop)
      return fail(unavailable("The request was ended by the server before it was complete."));
  }
  if (!output.finished) return;
  for (std::size_t i = prompt_index * width(); i < (prompt_index + 1) * width(); ++i)
    if (!choices[i].finished())
      return fail(unavailable("The request was ended by the server before it was complete."));
}

void AnswerState::fail(Status error) {
  if (!finished()) error_ = std::move(error);
}

std::vector<SequenceStop> AnswerState::take_stops() { return std::exchange(stops_, {}); }

}  // namespace pagoda
