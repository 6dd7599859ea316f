#include "text/answer_formats/held_calls.h"

#include "text/answer_formats/json_scanner.h"

namespace pagoda::answer {
namespace {

class HeldCallsStage final : public AnswerStage {
 public:
  HeldCallsStage(const CallShape& shape, const ToolContext& context) : shape_(shape), out_(context.out) {
    begin_ = {shape.opening()};
    middle_ = {shape.middle};
    end_ = {shape.end};
    after_call_ = {shape.begin};
    if (!shape.section_end.empty()) after_call_.push_back(shape.section_end);
  }

  const Markers& markers() const override {
    static const Markers kNone;
    switch (state_) {
      case State::content:
        return begin_;
      case State::name:
        return middle_;
      case State::arguments:
        return kNone;
      case State::closing:
        return end_;
      case State::behind:
        return after_call_;
    }
    return kNone;
  }

  std::size_t on_text(std::string_view text) override {
    switch (state_) {
      case State::content:
        out_.content(text);
        return text.size();
      case State::name:
        name_ += text;
        return text.size();
      case State::arguments:
        return on_arguments(text);
      case State::closing:  // a truncated end marker
        return text.size();
      case State::behind: {
        const std::size_t first = text.find_first_not_of(" \t\r\n;,");
        if (first == std::string_view::npos) return text.size();
        // The truncated beginning of the next call.
        if (shape_.begin.starts_with(text.substr(first))) return text.size();
        state_ = State::content;
        return first;
      }
    }
    return text.size();
  }

  void on_marker(std::string_view marker) override {
    if (state_ == State::name) {
      state_ = State::arguments;
      scanner_ = JsonScanner();
      reported_bytes_ = 0;
      out_.call_begun(name_, {});
    } else if (state_ == State::closing) {
      state_ = State::behind;
    } else if (marker == shape_.begin) {
      state_ = State::name;
      name_.clear();
    } else if (marker == shape_.section_begin) {
      state_ = State::behind;
    } else if (marker == shape_.section_end) {
      state_ = State::content;
    }
  }

  void on_end() override {
    // Truncated; before the arguments, nothing was reported.
    if (state_ == State::arguments) out_.call_ended();
  }

  bool uses_special(std::string_view token) const override {
    return any_holds(begin_, token) || any_holds(middle_, token) || any_holds(end_, token) ||
           any_holds(after_call_, token);
  }

 private:
  enum class State { content, name, arguments, closing, behind };

  std::size_t on_arguments(std::string_view text) {
    const std::size_t taken = scanner_.take(text);
    const std::string& raw = scanner_.raw();
    if (raw.size() > reported_bytes_) out_.call_arguments(std::string_view(raw).substr(reported_bytes_));
    reported_bytes_ = raw.size();
    if (scanner_.state() == JsonScanner::State::more) return taken;
    out_.call_ended();
    state_ = shape_.end.empty() ? State::behind : State::closing;
    return taken;
  }

  const CallShape& shape_;
  AnswerOutput& out_;
  Markers begin_, middle_, end_, after_call_;
  State state_ = State::content;
  std::string name_;
  JsonScanner scanner_;
  std::size_t reported_bytes_ = 0;  // bytes of the arguments reported so far
};

}  // namespace

std::unique_ptr<AnswerStage> make_held_calls_stage(const CallShape& shape, const ToolContext& context) {
  return std::make_unique<HeldCallsStage>(shape, context);
}

}  // namespace pagoda::answer
