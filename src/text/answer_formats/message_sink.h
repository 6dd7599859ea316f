#pragma once
// MessageSink: the end of the pipeline. Turns the stages' results into events, and resolves the white space
// between the parts: white space at the ends of reasoning, before and after calls, or between reasoning and
// content is markup. An answer without reasoning and calls keeps every byte. Threads: none.
#include <vector>

#include "text/answer_formats/answer_stage.h"
#include "text/answer_parser.h"

namespace pagoda::answer {

class MessageSink final : public AnswerOutput {
 public:
  explicit MessageSink(bool calls_alone) : calls_alone_(calls_alone) {}
  void set_events(std::vector<AnswerEvent>* events) { events_ = events; }

  void reasoning(std::string_view text) override;
  void content(std::string_view text) override;
  void call(const WrittenCall& call) override;
  void call_begun(std::string_view name, std::string_view id) override;
  void call_arguments(std::string_view text) override;
  void call_ended() override;
  void finish();

 private:
  // Text of one kind, whose trailing white space is held back until more text of that kind follows.
  struct Part {
    std::string waiting;
    bool begun = false;  // something other than white space was emitted
  };
  void emit(AnswerEvent::Kind kind, Part& part, std::string_view text, bool keep_leading);

  const bool calls_alone_;  // content is the remainder of truncated markup
  std::vector<AnswerEvent>* events_ = nullptr;
  Part reasoning_;
  Part content_;
  std::int32_t num_calls_ = 0;
};

}  // namespace pagoda::answer
