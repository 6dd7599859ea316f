#pragma once
// StateWriter: an AnswerWriter over one AnswerState, for protocols whose answers are small enough to be
// written in one piece: fresh output as events, or the whole answer at the end. Answers that may have
// hundreds of megabytes of log-probabilities are written in pieces by openai/response_builder.h; here, their
// text counts as memory held by the answer. Invariant: after the answer has ended, write_events() or
// write_body() is called once and never again. Threads: none; one at a time.
#include <utility>

#include "api/answer_state.h"
#include "api/answer_writer.h"
#include "api/api_context.h"

namespace pagoda {

class StateWriter : public AnswerWriter {
 public:
  StateWriter(AnswerOptions options, bool stream, const ApiContext& context)  // borrows context
      : options_(std::move(options)),
        context_(context),
        state_(options_, *context.tokenizer),
        stream_(stream) {}

  void add(std::size_t prompt_index, RequestOutput output) override {
    state_.add(prompt_index, std::move(output));
    note_output();
  }
  void fail(Status error) override {
    state_.fail(std::move(error));
    note_output();
  }
  std::vector<SequenceStop> take_stops() override { return state_.take_stops(); }
  bool streaming() const override { return stream_; }
  bool needs_every_output() const override { return stream_ || !options_.stop.empty(); }
  bool finished() const override { return state_.finished(); }
  const Status& error() const override { return state_.error(); }
  Usage usage() const override { return state_.usage(); }
  std::int64_t held_bytes_per_token() const override {
    return options_.logprobs ? (1 + *options_.logprobs) * kLogprobTextBytes * num_copies() : 0;
  }
  bool take(std::string& out, std::size_t) override {
    if (ended_) return false;
    ended_ = finished();
    if (stream_)
      write_events(out);
    else if (ended_ && error().ok())
      write_body(out);
    return false;
  }

 protected:
  // Appends the fresh output as events; once finished(), also the end of the stream or its error event.
  virtual void write_events(std::string& out) = 0;
  // Appends the whole answer. Called only if it has ended without an error.
  virtual void write_body(std::string& out) = 0;
  virtual void note_output() {}
  const std::string& model_name() const { return answering_model(options_.adapter, context_); }
  // Number of copies of the log-probabilities' text in memory at the end.
  virtual std::int64_t num_copies() const { return 1; }

  const AnswerOptions options_;
  const ApiContext& context_;
  AnswerState state_;

 private:
  static constexpr std::int64_t kLogprobTextBytes = 128;  // per token, with its bytes as numbers

  const bool stream_;
  bool ended_ = false;  // the end has been written
};

}  // namespace pagoda
