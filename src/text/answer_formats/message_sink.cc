#include "text/answer_formats/message_sink.h"

namespace pagoda::answer {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

void MessageSink::emit(AnswerEvent::Kind kind, Part& part, std::string_view text, bool keep_leading) {
  const std::size_t last = text.find_last_not_of(kSpace);
  if (last == std::string_view::npos) {
    part.waiting += text;
    return;
  }
  std::string out;
  if (part.begun || keep_leading) {
    out = std::move(part.waiting);
    out += text.substr(0, last + 1);
  } else {
    const std::size_t first = text.find_first_not_of(kSpace);
    out = text.substr(first, last + 1 - first);
  }
  part.waiting = text.substr(last + 1);
  part.begun = true;
  events_->push_back({.kind = kind, .text = std::move(out)});
}

void MessageSink::reasoning(std::string_view text) {
  emit(AnswerEvent::Kind::reasoning, reasoning_, text, false);
}

void MessageSink::content(std::string_view text) {
  if (calls_alone_) return;
  emit(AnswerEvent::Kind::content, content_, text, !reasoning_.begun && num_calls_ == 0);
}

void MessageSink::call(const WrittenCall& call) {
  call_begun(call.name, call.id);
  call_arguments(call.arguments);
  call_ended();
}

void MessageSink::call_begun(std::string_view name, std::string_view id) {
  events_->push_back({.kind = AnswerEvent::Kind::call_begun,
                      .call = num_calls_++,
                      .text = std::string(name),
                      .call_id = std::string(id)});
}

void MessageSink::call_arguments(std::string_view text) {
  events_->push_back(
      {.kind = AnswerEvent::Kind::call_arguments, .call = num_calls_ - 1, .text = std::string(text)});
}

void MessageSink::call_ended() {
  events_->push_back({.kind = AnswerEvent::Kind::call_ended, .call = num_calls_ - 1});
}

void MessageSink::finish() {
  if (num_calls_ == 0 && !content_.waiting.empty() && (content_.begun || !reasoning_.begun))
    events_->push_back({.kind = AnswerEvent::Kind::content, .text = std::move(content_.waiting)});
  content_.waiting.clear();
}

}  // namespace pagoda::answer
