#pragma once
// OutputRecord: one pagoda_output with all that it points at; RecordWriter: an answer that becomes such
// records instead of bytes. Not what an answer is (api/answer_state.h). Threads: none; one at a time.
#include <pagoda.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "api/answer_state.h"
#include "api/answer_writer.h"

namespace pagoda {

struct OutputRecord : pagoda_output {
  bool is_first = true;                          // no output of its request came before
  std::shared_ptr<const AnswerOptions> options;  // has the prompt's ids
  std::string message_text, body_text;
  std::vector<pagoda_choice> choice_rows;
  std::deque<ChoiceState::Fresh> fresh;             // stable addresses, as of all below
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
  bool streaming() const override { return false; }  // nobody takes bytes
  bool needs_every_output() const override { return stream_ || !options_->stop.empty(); }
  bool finished() const override { return state_.finished(); }
  const Status& error() const override { return state_.error(); }
  Usage usage() const override { return state_.usage(); }
  bool take(std::string&, std::size_t) override { return false; }

  // Returns the news; null: there is none yet. Once finished(), the last record, and then nothing.
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

// The one record of a call whose answer is a body.
std::unique_ptr<OutputRecord> body_record(std::uint64_t id, const Status& error, std::string body);

// How the C interface calls it.
pagoda_status c_status(const Status& status);

}  // namespace pagoda
