// "[TOOL_CALLS][{"name": …, "arguments": {…}}]" for Mistral's older models; "[TOOL_CALLS]f[ARGS]{…}" and
// "[TOOL_CALLS]f{…}" for its newer ones, possibly with "[CALL_ID]id" after the name.
#include <optional>

#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {
namespace {

constexpr std::string_view kCalls = "[TOOL_CALLS]";
constexpr std::string_view kArguments = "[ARGS]";
constexpr std::string_view kId = "[CALL_ID]";

class MistralStage final : public AnswerStage {
 public:
  explicit MistralStage(const ToolContext& context) : tools_(context.tools), content_(context.out, false) {}

  const Markers& markers() const override {
    static const Markers kNone;
    static const Markers kContent = {kCalls};
    static const Markers kHeader = {kCalls, kArguments, kId};
    return state_ == State::content ? kContent : state_ == State::json ? kNone : kHeader;
  }

  std::size_t on_text(std::string_view text) override {
    switch (state_) {
      case State::json:
        return on_json(text);
      case State::name:
        return on_name(text);
      case State::id: {
        const std::size_t brace = text.find('{');
        id_ += text.substr(0, brace);
        raw_ += text.substr(0, brace);
        if (brace == std::string_view::npos) return text.size();
        begin_json();
        return brace;
      }
      default:
        content_.text(text);
        return text.size();
    }
  }

  void on_marker(std::string_view marker) override {
    if (marker == kCalls) {
      if (state_ != State::content) end_name();
      raw_ = marker;
      name_.clear();
      id_.clear();
      state_ = State::name;
      return;
    }
    raw_ += marker;
    if (marker == kId)
      state_ = State::id;
    else
      begin_json();
  }

  void on_end() override {
    if (state_ == State::name || state_ == State::id)
      end_name();
    else if (state_ == State::json)
      give_up();
  }

  bool uses_special(std::string_view token) const override {
    return any_holds({kCalls, kArguments, kId}, token);
  }

 private:
  enum class State { content, name, id, json };

  std::size_t on_name(std::string_view text) {
    if (trim(name_).empty()) {
      const std::size_t first = text.find_first_not_of(" \t\r\n");
      if (first != std::string_view::npos && text[first] == '[') {
        raw_ += text.substr(0, first);
        begin_json();
        return first;
      }
    }
    const std::size_t brace = text.find('{');
    name_ += text.substr(0, brace);
    raw_ += text.substr(0, brace);
    if (brace == std::string_view::npos) return text.size();
    begin_json();
    return brace;
  }

  void begin_json() {
    scanner_ = JsonScanner();
    state_ = State::json;
  }

  std::size_t on_json(std::string_view text) {
    const std::size_t taken = scanner_.take(text);
    if (scanner_.state() == JsonScanner::State::failed) {
      give_up();
    } else if (scanner_.state() == JsonScanner::State::done) {
      state_ = State::content;
      if (!report()) content_.malformed(raw_ + scanner_.raw());
    }
    return taken;
  }

  void give_up() {
    content_.malformed(raw_ + scanner_.raw());
    state_ = State::content;
  }

  // Handles a name without arguments.
  void end_name() {
    state_ = State::content;
    const std::string_view name = trim(name_);
    const bool known = tools_.empty() || tools_.find(name) != nullptr;
    if (name.empty() || !known || name.find_first_of(" \n") != std::string_view::npos)
      content_.malformed(raw_);
    else
      content_.call({.name = std::string(name), .arguments = "{}", .id = std::string(trim(id_))});
  }

  bool report() {
    const std::string& json = scanner_.raw();
    if (!parse_json(json)) return false;
    const std::string_view name = trim(name_);
    if (!name.empty()) {
      if (json.find('{') != json.find_first_not_of(" \t\r\n")) return false;
      content_.call(
          {.name = std::string(name), .arguments = std::string(trim(json)), .id = std::string(trim(id_))});
      return true;
    }
    std::vector<WrittenCall> calls;
    std::vector<JsonMember> elements;
    if (trim(json).starts_with('{'))
      elements.push_back({{}, trim(json)});
    else
      elements = json_members(json);
    for (const JsonMember& element : elements) {
      if (!element.value.starts_with('{')) return false;
      WrittenCall call;
      for (const JsonMember& member : json_members(element.value)) {
        const bool is_text = member.key == "name" || member.key == "id";
        const auto value = is_text ? parse_json(member.value) : std::nullopt;
        if (value && value->is_string())
          (member.key == "name" ? call.name : call.id)
              .assign(value->get_string().data(), value->get_string().size());
        else if (member.key == "arguments" || member.key == "parameters")
          call.arguments = member.value;
      }
      if (call.name.empty() || call.arguments.empty()) return false;
      calls.push_back(std::move(call));
    }
    for (const WrittenCall& call : calls) content_.call(call);
    return !calls.empty();
  }

  const ToolTypes& tools_;
  ContentPolicy content_;
  State state_ = State::content;
  std::string raw_;  // text from the marker up to the JSON
  std::string name_, id_;
  JsonScanner scanner_;
};

}  // namespace

ToolFormat mistral_format() {
  return {.name = "mistral",
          .make = [](const ToolContext& context, std::string_view) -> std::unique_ptr<AnswerStage> {
            return std::make_unique<MistralStage>(context);
          },
          .template_signs = {"[TOOL_CALLS]"}};
}

}  // namespace pagoda::answer
