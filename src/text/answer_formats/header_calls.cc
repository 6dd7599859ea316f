// Formats that write a call as a header and JSON arguments, each between markers: DeepSeek V3, R1 and V3.1,
// Kimi K2. The arguments are passed on verbatim.
#include <optional>

#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {
namespace {

struct HeaderFormat {
  std::string_view name;
  std::string_view section_open, section_close, call_open, separator, call_close;
  // Parses the text before and after the separator; nullopt if it is not a call.
  std::optional<WrittenCall> (*read)(std::string_view header, std::string_view body);
  bool cut_is_call = false;  // a truncated call is reported as far as it goes
  Markers template_signs = {};
};

// "function" | "get_weather\n```json\n{…}\n```"
std::optional<WrittenCall> read_fenced(std::string_view, std::string_view body) {
  constexpr std::string_view kFence = "```json";
  const std::size_t fence = body.find(kFence);
  if (fence == std::string_view::npos) return std::nullopt;
  WrittenCall call{.name = std::string(trim(body.substr(0, fence))), .arguments = {}, .id = {}};
  std::string_view arguments = trim(body.substr(fence + kFence.size()));
  if (arguments.ends_with("```")) arguments.remove_suffix(3);
  call.arguments = trim(arguments);
  if (call.name.empty()) return std::nullopt;
  return call;
}

// "get_weather" | "{…}"
std::optional<WrittenCall> read_plain(std::string_view header, std::string_view body) {
  WrittenCall call{.name = std::string(trim(header)), .arguments = std::string(trim(body)), .id = {}};
  if (call.name.empty()) return std::nullopt;
  return call;
}

// "functions.get_weather:0" | "{…}"; the header is the call's id.
std::optional<WrittenCall> read_numbered(std::string_view header, std::string_view body) {
  header = trim(header);
  const std::size_t colon = header.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == header.size()) return std::nullopt;
  if (header.find_first_not_of("0123456789", colon + 1) != std::string_view::npos) return std::nullopt;
  std::string_view name = header.substr(0, colon);
  if (name.starts_with("functions.")) name.remove_prefix(10);
  if (name.empty()) return std::nullopt;
  return WrittenCall{
      .name = std::string(name), .arguments = std::string(trim(body)), .id = std::string(header)};
}

const HeaderFormat kHeaderFormats[] = {
    {.name = "deepseek_v3",
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "<｜tool▁calls▁end｜>",
     .call_open = "<｜tool▁call▁begin｜>",
     .separator = "<｜tool▁sep｜>",
     .call_close = "<｜tool▁call▁end｜>",
     .read = read_fenced,
     .template_signs = {"<｜tool▁calls▁begin｜>", "```json"}},
    {.name = "deepseek_v31",
     .section_open = "<｜tool▁calls▁begin｜>",
     .section_close = "<｜tool▁calls▁end｜>",
     .call_open = "<｜tool▁call▁begin｜>",
     .separator = "<｜tool▁sep｜>",
     .call_close = "<｜tool▁call▁end｜>",
     .read = read_plain,
     .template_signs = {"<｜tool▁calls▁begin｜>"}},
    {.name = "kimi_k2",
     .section_open = "<|tool_calls_section_begin|>",
     .section_close = "<|tool_calls_section_end|>",
     .call_open = "<|tool_call_begin|>",
     .separator = "<|tool_call_argument_begin|>",
     .call_close = "<|tool_call_end|>",
     .read = read_numbered,
     .cut_is_call = true,
     .template_signs = {"<|tool_calls_section_begin|>"}},
};

class HeaderCallStage final : public AnswerStage {
 public:
  HeaderCallStage(const HeaderFormat& format, const ToolContext& context)
      : format_(format),
        content_(context.out, false),
        in_content_{format.section_open, format.call_open},
        in_section_{format.call_open, format.section_close},
        in_header_{format.separator, format.call_close, format.section_close},
        in_body_{format.call_close, format.section_close} {}

  const Markers& markers() const override {
    switch (state_) {
      case State::section:
        return in_section_;
      case State::header:
        return in_header_;
      case State::body:
        return in_body_;
      default:
        return in_content_;
    }
  }

  std::size_t on_text(std::string_view text) override {
    if (state_ == State::content) {
      content_.text(text);
      return text.size();
    }
    raw_ += text;
    if (state_ == State::header) header_ += text;
    if (state_ == State::body) body_ += text;
    if (state_ == State::section) blank_ = blank_ && trim(text).empty();
    return text.size();
  }

  void on_marker(std::string_view marker) override {
    raw_ += marker;
    if (marker == format_.section_open) {
      state_ = State::section;
    } else if (marker == format_.call_open) {
      header_.clear();
      body_.clear();
      state_ = State::header;
    } else if (marker == format_.separator) {
      state_ = State::body;
    } else {  // the end of the call, of the section, or of both
      if (state_ == State::header || state_ == State::body) end_call();
      if (marker == format_.section_close) {
        if (!blank_) content_.malformed(raw_);
        leave();
      } else {
        state_ = State::section;
      }
    }
  }

  void on_end() override {
    if (state_ == State::content) return;
    if (state_ == State::body && format_.cut_is_call) end_call();
    const bool cut = state_ == State::header || (state_ == State::body && !format_.cut_is_call);
    if (!blank_ || (cut && !(trim(header_).empty() && trim(body_).empty()))) content_.malformed(raw_);
  }

  bool uses_special(std::string_view token) const override {
    return any_holds(in_content_, token) || any_holds(in_header_, token);
  }

 private:
  enum class State { content, section, header, body };

  void end_call() {
    std::optional<WrittenCall> call;
    if (state_ == State::body) call = format_.read(header_, body_);
    if (!call) {
      blank_ = false;
      return;
    }
    if (call->arguments.empty()) call->arguments = "{}";
    content_.call(*call);
    raw_.clear();
    blank_ = true;
  }

  void leave() {
    state_ = State::content;
    raw_.clear();
    blank_ = true;
  }

  const HeaderFormat& format_;
  ContentPolicy content_;
  const Markers in_content_, in_section_, in_header_, in_body_;
  State state_ = State::content;
  std::string raw_;  // raw text since the section began or its last call ended
  std::string header_, body_;
  bool blank_ = true;  // raw_ contains only markup
};

std::unique_ptr<AnswerStage> make_header_stage(const ToolContext& context, std::string_view name) {
  for (const HeaderFormat& format : kHeaderFormats)
    if (format.name == name) return std::make_unique<HeaderCallStage>(format, context);
  return nullptr;
}

}  // namespace

std::vector<ToolFormat> header_call_formats() {
  std::vector<ToolFormat> formats;
  for (const HeaderFormat& format : kHeaderFormats)
    formats.push_back(
        {.name = format.name, .make = make_header_stage, .template_signs = format.template_signs});
  return formats;
}

}  // namespace pagoda::answer
