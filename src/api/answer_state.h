#pragma once
// AnswerState: the growing answer of one call, independent of the protocol: takes engine outputs and produces
// choices with final text, finish reasons and usage. It detokenizes and matches stop strings. Each protocol's
// AnswerWriter owns an AnswerState and writes it in the protocol's form.
//
// Invariant: once finished(), add() changes nothing; every choice has a finish reason, or error() says why
// not. Threads: none; one at a time.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_writer.h"
#include "api/choice_state.h"
#include "base/status.h"
#include "request/request_output.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// Data that the engine reports for one prompt.
struct PromptState {
  std::int32_t num_cached_tokens = 0;
  RequestTimes times;
  std::vector<std::optional<TokenLogprobs>> logprobs;
};

class AnswerState {
 public:
  AnswerState(const AnswerOptions& options, const Tokenizer& tokenizer);  // borrows both

  // As in AnswerWriter.
  void add(std::size_t prompt_index, RequestOutput output);
  void fail(Status error);
  std::vector<SequenceStop> take_stops();
  bool finished() const { return num_unfinished_ == 0 || !error_.ok(); }
  const Status& error() const { return error_; }

  std::size_t num_choices() const { return choices.size(); }
  std::size_t width() const { return static_cast<std::size_t>(options_.n); }  // choices per prompt
  Usage usage_of(std::size_t prompt_begin, std::size_t prompt_end) const;
  Usage usage() const { return usage_of(0, prompts.size()); }
  RequestTimes times() const;  // times of the prompt that finished last

  std::vector<ChoiceState> choices;  // index: prompt * n + sequence; the writer takes `fresh`
  std::vector<PromptState> prompts;
  std::vector<SequenceDelta> best_so_far;  // by prompt, not yet written; no tokens: nothing new

 private:
  const AnswerOptions& options_;
  std::vector<SequenceStop> stops_;
  Status error_;
  std::size_t num_unfinished_ = 0;
};

}  // namespace pagoda
