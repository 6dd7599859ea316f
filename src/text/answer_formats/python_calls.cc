// Formats that write calls in Python syntax: [f(a=1), g()], bare or between markers. Anything but calls makes
// it plain text.
#include <optional>

#include "base/ascii.h"
#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/python_literals.h"
#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {
namespace {

struct PythonFormat {
  std::string_view name;
  std::string_view open = {}, close = {};
  bool bare = false;      // the whole content may be a list of calls
  bool bracketed = true;  // calls are in a list; otherwise one per line
  bool keep_after = false;
  Markers template_signs = {};
};

const PythonFormat kPythonFormats[] = {
    {.name = "olmo3",
     .open = "<function_calls>",
     .close = "</function_calls>",
     .bracketed = false,
     .template_signs = {"<function_calls>"}},
    {.name = "lfm2",
     .open = "<|tool_call_start|>",
     .close = "<|tool_call_end|>",
     .keep_after = true,
     .template_signs = {"<|tool_call_start|>"}},
    {.name = "llama4_pythonic",
     .open = "<|python_start|>",
     .close = "<|python_end|>",
     .bare = true,
     .template_signs = {"<|python_start|>"}},
    {.name = "pythonic", .bare = true, .template_signs = {"[func_name1(params_name1=params_value1"}},
};

// Tracks whether the bytes, after "[", can still be a list of calls, and where the list ends.
class CallListScanner {
 public:
  enum class State { more, closed, failed };
  State state() const { return state_; }

  void take(char c) {
    if (quote_ != 0) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == quote_)
        quote_ = 0;
      return;
    }
    if (!called_ && state_ == State::more) return take_name(c);
    switch (c) {
      case '\'':
      case '"':
        quote_ = c;
        return;
      case '[':
      case '(':
      case '{':
        if (open_.size() > kMaxJsonDepth)
          state_ = State::failed;
        else
          open_ += c;
        return;
      case ']':
      case ')':
      case '}':
        if (open_.back() != (c == ']' ? '[' : c == ')' ? '(' : '{')) {
          state_ = State::failed;
          return;
        }
        open_.pop_back();
        if (open_.empty()) state_ = State::closed;
        return;
      default:
        return;
    }
  }

 private:
  void take_name(char c) {  // up to the first "name("
    if (is_blank(c) && !named_) return;
    if (c == '(' && named_) {
      called_ = true;
      open_ += '(';
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
               static_cast<unsigned char>(c) >= 0x80 ||
               (named_ && ((c >= '0' && c <= '9') || c == '.' || c == '-'))) {
      named_ = true;
    } else {
      state_ = State::failed;
    }
  }

  std::string open_ = "[";
  State state_ = State::more;
  char quote_ = 0;
  bool escaped_ = false;
  bool named_ = false;
  bool called_ = false;
};

class PythonCallStage final : public AnswerStage {
 public:
  PythonCallStage(const PythonFormat& format, const ToolContext& context)
      : format_(format), content_(context.out, format.keep_after) {
    if (!format.open.empty()) between_.push_back(format.open);
    begin_ = between_;
    if (format.bare) begin_.push_back("[");
    if (!format.close.empty()) inside_.push_back(format.close);
  }

  const Markers& markers() const override {
    static const Markers kNone;
    switch (state_) {
      case State::fresh:
        return begin_;
      case State::list:
        return kNone;
      case State::block:
        return inside_;
      default:
        return between_;
    }
  }

  std::size_t on_text(std::string_view text) override {
    if (state_ == State::block) {
      raw_ += text;
      return text.size();
    }
    if (state_ == State::list) return on_list(text);
    if (state_ == State::fresh) {
      const std::size_t first = text.find_first_not_of(" \t\r\n");
      if (first == std::string_view::npos) {
        raw_ += text;
        return text.size();
      }
      content_.text(raw_ + std::string(text.substr(0, first + 1)));
      raw_.clear();
      state_ = State::content;
      return first + 1;
    }
    content_.text(text);
    return text.size();
  }

  void on_marker(std::string_view marker) override {
    if (state_ == State::fresh && marker != "[") {
      content_.text(raw_);
      raw_.clear();
    }
    if (marker == "[") {
      raw_ += marker;
      scanner_ = {};
      state_ = State::list;
    } else if (marker == format_.open) {
      raw_.clear();
      state_ = State::block;
    } else {
      end_block(true);
    }
  }

  void on_end() override {
    if (state_ == State::block) return end_block(false);
    const bool whole = state_ == State::list && scanner_.state() == CallListScanner::State::closed;
    if (whole && report(raw_)) return;
    content_.malformed(raw_);
  }

  bool uses_special(std::string_view token) const override {
    return any_holds(between_, token) || any_holds(inside_, token);
  }

 private:
  enum class State { fresh, list, block, content };

  std::size_t on_list(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (scanner_.state() == CallListScanner::State::closed) {
        if (is_blank(text[i])) continue;
        give_up(text.substr(0, i));  // no other text is allowed
        return i;
      }
      scanner_.take(text[i]);
      if (scanner_.state() == CallListScanner::State::failed) {
        give_up(text.substr(0, i + 1));
        return i + 1;
      }
    }
    raw_ += text;
    return text.size();
  }

  void give_up(std::string_view text) {
    raw_ += text;
    content_.malformed(raw_);
    raw_.clear();
    state_ = State::content;
  }

  void end_block(bool closed) {
    if (!report(raw_)) {
      std::string text(format_.open);
      text += raw_;
      if (closed) text += format_.close;
      content_.malformed(text);
    }
    raw_.clear();
    state_ = State::content;
  }

  bool report(std::string_view text) {
    text = trim(text);
    if (format_.bracketed) {
      if (!text.starts_with('[') || !text.ends_with(']')) return false;
      text = text.substr(1, text.size() - 2);
    }
    const auto calls = parse_python_calls(text);
    if (!calls) return false;
    for (const WrittenCall& call : *calls) content_.call(call);
    return true;
  }

  const PythonFormat& format_;
  ContentPolicy content_;
  Markers begin_, between_, inside_;
  State state_ = State::fresh;
  std::string raw_;  // held text: leading white space, a list, a block
  CallListScanner scanner_;
};

std::unique_ptr<AnswerStage> make_python_stage(const ToolContext& context, std::string_view name) {
  for (const PythonFormat& format : kPythonFormats)
    if (format.name == name) return std::make_unique<PythonCallStage>(format, context);
  return nullptr;
}

}  // namespace

std::vector<ToolFormat> python_call_formats() {
  std::vector<ToolFormat> formats;
  for (const PythonFormat& format : kPythonFormats)
    formats.push_back(
        {.name = format.name, .make = make_python_stage, .template_signs = format.template_signs});
  return formats;
}

}  // namespace pagoda::answer
