// Blocks that begin with a marker and end with <|end_message|>: <|content_thinking|> is reasoning,
// <|content_text|> is content, <|content_invoke_tool_json|>{"name": …, "args": {…}} is a call. Text before a
// block's marker is its header.
#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {
namespace {

constexpr std::string_view kModel = "<|message_model|>";
constexpr std::string_view kThinking = "<|content_thinking|>";
constexpr std::string_view kText = "<|content_text|>";
constexpr std::string_view kCall = "<|content_invoke_tool_json|>";
constexpr std::string_view kCallText = "<|content_invoke_tool_text|>";
constexpr std::string_view kError = "<|content_tool_error|>";
constexpr std::string_view kEnd = "<|end_message|>";
constexpr std::string_view kEndSampling = "<|content_model_end_sampling|>";

class InklingStage final : public AnswerStage {
 public:
  InklingStage(const ToolContext& context, bool tools_wanted, bool reasoning_wanted,
               std::optional<bool> starts_in_reasoning)
      : out_(context.out), tools_wanted_(tools_wanted), reasoning_wanted_(reasoning_wanted) {
    if (starts_in_reasoning.value_or(false)) state_ = State::thinking;
  }

  const Markers& markers() const override {
    static const Markers kAll = {kModel, kThinking, kText, kCall, kCallText, kError, kEnd, kEndSampling};
    return kAll;
  }

  std::size_t on_text(std::string_view text) override {
    switch (state_) {
      case State::thinking:
        reasoning_wanted_ ? out_.reasoning(text) : out_.content(text);
        break;
      case State::text:
        out_.content(text);
        break;
      default:
        held_ += text;
    }
    return text.size();
  }

  void on_marker(std::string_view marker) override {
    if (state_ == State::call) end_call();
    const bool ends = marker == kEnd || marker == kEndSampling;
    if (state_ == State::header && ends && !blocks_) out_.content(held_);  // text without a block marker
    held_.clear();
    if (ends) {
      state_ = State::header;
      return;
    }
    if (marker == kModel) {
      state_ = State::header;
      return;
    }
    blocks_ = true;
    state_ = marker == kThinking                ? State::thinking
             : marker == kCall && tools_wanted_ ? State::call
                                                : State::text;
    if (marker == kCall && !tools_wanted_) out_.content(marker);
  }

  void on_end() override {
    if (state_ == State::call)
      end_call();
    else if (state_ == State::header && !blocks_)
      out_.content(held_);
  }

  bool uses_special(std::string_view token) const override { return any_holds(markers(), token); }

 private:
  enum class State { header, thinking, text, call };

  void end_call() {
    const std::string_view json = trim(held_);
    const bool whole = parse_json(json).has_value();
    WrittenCall call;
    bool begun = false;  // the arguments of a truncated call have begun
    if (json.starts_with('{')) {
      for (const JsonMember& member : json_members(json)) {
        if (member.key == "name") {
          if (const auto name = parse_json(member.value); name && name->is_string())
            call.name.assign(name->get_string().data(), name->get_string().size());
        } else if (member.key == "args") {
          call.arguments = member.value;
        }
      }
      begun = json.find("\"args\"") != std::string_view::npos;
    }
    if (call.name.empty() || (!whole && begun && call.arguments.empty())) {
      out_.content(std::string(kCall) + held_);
    } else {
      if (call.arguments.empty()) call.arguments = "{}";
      out_.call(call);
    }
    held_.clear();
  }

  AnswerOutput& out_;
  bool tools_wanted_, reasoning_wanted_;
  State state_ = State::header;
  bool blocks_ = false;  // a block has begun
  std::string held_;     // a header, or a call's JSON
};

}  // namespace

MessageFormat inkling_format() {
  return {.tool_parser = "inkling",
          .reasoning_parsers = {"inkling"},
          .make = [](const ToolContext& context, bool tools, bool reasoning,
                     std::optional<bool> starts) -> std::unique_ptr<AnswerStage> {
            return std::make_unique<InklingStage>(context, tools, reasoning, starts);
          },
          .template_signs = {"<|content_invoke_tool_json|>"}};
}

}  // namespace pagoda::answer
