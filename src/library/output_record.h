#pragma once
// OutputRecord: one pagoda_output with all that it points to. RecordWriter: writes an answer as records
// instead of bytes; api/answer_state.h holds the answer. Threads: none; one at a time.
#include <pagoda.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "api/answer_state.h"
#include "api/answer_writer.h"

namespace pagoda {

struct OutputRecord : pagoda_output {
  bool is_first = true;                          // first output of its request
  std::shared_ptr<const AnswerOptions> options;  // holds the prompt's ids
  std::string message_text, body_text;
  std::vector<pagoda_choice> choice_rows;
  std::deque<ChoiceState::Fresh> fresh;             // a deque for stable addresses, as all below
  std::deque<std::string> texts;                    // tokens and stop strings
  std::deque<std::vector<pagoda_logprob>> items;    // entries of one position
  std::deque<std::vector<pagoda_logprobs>> tables;  // tables of one choice, or the prompt
};

class RecordWriter final : public AnswerWriter {
 public:
  RecordWriter(AnswerOptions options, bool stream, const Tokenizer& tokenizer);  // borrows the tokenizer

  void add(std::size_t prompt_index, RequestOutput output) override {
    state_.add(prompt_index, std::move(output));
    has_news_ = true;
  }
  void fail(Status error) override { state_.fail(std::move(error)); }
  std::vector<SequenceStop> take_stops() override { return state_.take_stops(); }
  bool streaming() const override { return false; }  // no bytes are taken
  bool needs_every_output() const override { return stream_ || !options_->stop.empty(); }
  bool finished() const override { return state_.finished(); }
  const Status& error() const override { return state_.error(); }
  Usage usage() const override { return state_.usage(); }
  bool take(std::string&, std::size_t) override { return false; }

  // Returns a record of the new output; null if there is none yet. Once finished(), returns the last record,
  // then null.
  std::unique_ptr<OutputRecord> take_record(std::uint64_t id);

 private:
  void add_choice(OutputRecord& record, ChoiceState& choice, std::int32_t index) const;
  pagoda_logprobs logprobs(OutputRecord& record, const TokenLogprobs& from) const;

  const std::shared_ptr<const AnswerOptions> options_;
  const Tokenizer& tokenizer_;
  AnswerState state_;
  const bool stream_;
  bool has_news_ = false, begun_ = false, ended_ = false;
};

// The only record of a call whose answer is a body.
std::unique_ptr<OutputRecord> body_record(std::uint64_t id, const Status& error, std::string body);

// The C interface's code for a status.
pagoda_status c_status(const Status& status);

}  // namespace pagoda
