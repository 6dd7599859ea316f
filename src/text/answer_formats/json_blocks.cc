// Formats that write a call as JSON, {"name": …, "arguments": {…}}, or as a list of such objects, between
// markers or bare. A call is reported when its JSON is complete; if it turns out not to be a call, its text,
// including the marker, becomes content.
#include <algorithm>
#include <optional>
#include <span>

#include "text/answer_formats/citations.h"
#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {
namespace {

struct JsonBlock {
  std::string_view name;
  Markers open;        // precede the JSON
  Markers close = {};  // follow it, if any
  char bare = 0;  // '{' or '[': JSON may also occur without a marker, if its first key looks like a call's
  bool bare_first = false;  // bare JSON only at the beginning of the content
  std::string_view name_key = "name";
  Markers argument_keys = {"arguments", "parameters"};
  bool name_is_key = false;  // {"f": {…}} instead
  bool arguments_optional = false;
  bool keep_after = false;  // text after calls is content
  Markers dropped = {};     // markup around the content
  bool cites = false;       // Cohere's citations are removed from the content
  Markers template_signs = {};
};

const JsonBlock kBlocks[] = {
    {.name = "hermes",
     .open = {"<tool_call>"},
     .close = {"</tool_call>"},
     .template_signs = {"<tool_call>", "arguments"}},
    {.name = "llama3_json",
     .open = {"<|python_tag|>"},
     .bare = '{',
     .dropped = {"<|python_tag|>"},
     .template_signs = {"\"parameters\": ", "<|python_tag|>"}},
    {.name = "llama4_json", .open = {"<|python_tag|>"}, .bare = '{', .dropped = {"<|python_tag|>"}},
    {.name = "granite",
     .open = {"<|tool_call|>", "<tool_call>"},
     .bare = '[',
     .bare_first = true,
     .template_signs = {"<|tool_call|>"}},
    {.name = "granite4", .open = {"<tool_call>"}, .close = {"</tool_call>"}, .keep_after = true},
    {.name = "granite-20b-fc", .open = {"<function_call>"}, .template_signs = {"<function_call>"}},
    {.name = "phi4_mini_json", .open = {"functools"}, .template_signs = {"functools["}},
    {.name = "internlm",
     .open = {"<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"},
     .close = {"<|action_end|>"},
     .argument_keys = {"parameters", "arguments"},
     .arguments_optional = true,
     .template_signs = {"<|action_start|>", "<|plugin|>"}},
    {.name = "jamba",
     .open = {"<tool_calls>"},
     .close = {"</tool_calls>"},
     .template_signs = {"<tool_calls>", "<tool_definitions>"}},
    {.name = "hunyuan_a13b",
     .open = {"<tool_calls>"},
     .close = {"</tool_calls>"},
     .dropped = {"<answer>", "</answer>"},
     .template_signs = {"<tool_calls>", "<answer>"}},
    {.name = "xlam",
     .open = {"<tool_call>", "[TOOL_CALLS]", "```json", "```"},
     .close = {"</tool_call>", "```"},
     .bare = '[',
     .keep_after = true},
    {.name = "ernie45",
     .open = {"<tool_call>"},
     .close = {"</tool_call>"},
     .dropped = {"<response>", "</response>", "</s>"},
     .template_signs = {"<tool_call>", "<response>"}},
    {.name = "nemotron_json",
     .open = {"<TOOLCALL>"},
     .close = {"</TOOLCALL>"},
     .template_signs = {"<TOOLCALL>"}},
    {.name = "apriel",
     .open = {"<tool_calls>"},
     .close = {"</tool_calls>"},
     .dropped = {"[END FINAL RESPONSE]"},
     .template_signs = {"<tool_calls>", "[BEGIN FINAL RESPONSE]"}},
    {.name = "longcat",
     .open = {"<longcat_tool_call>"},
     .close = {"</longcat_tool_call>"},
     .template_signs = {"<longcat_tool_call>"}},
    {.name = "apertus",
     .open = {"<|tools_prefix|>"},
     .close = {"<|tools_suffix|>"},
     .name_is_key = true,
     .keep_after = true,
     .template_signs = {"<|tools_prefix|>"}},
    {.name = "cohere_command3",
     .open = {"<|START_ACTION|>"},
     .close = {"<|END_ACTION|>"},
     .name_key = "tool_name",
     .argument_keys = {"parameters"},
     .dropped = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"},
     .cites = true,
     .template_signs = {"<|START_ACTION|>", "<|START_RESPONSE|>"}},
    {.name = "cohere_command4",
     .open = {"<|START_ACTION|>"},
     .close = {"<|END_ACTION|>"},
     .name_key = "tool_name",
     .argument_keys = {"parameters"},
     .dropped = {"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>",
                 "<|END_OF_TURN_TOKEN|>"},
     .cites = true,
     .template_signs = {"<|START_ACTION|>", "<|START_TEXT|>"}},
    {.name = "gigachat3",
     .open = {"<|message_sep|>\n\nfunction call<|role_sep|>", "function call<|role_sep|>",
              "<|function_call|>"},
     .dropped = {"</s>"},
     .template_signs = {"function call<|role_sep|>"}},
};

// The possible first keys of a call's JSON; anything else need not be held back to its end.
const Markers kFirstKeys = {"name", "type", "id", "arguments", "parameters", "function"};

class JsonBlockStage final : public AnswerStage {
 public:
  JsonBlockStage(const JsonBlock& block, const ToolContext& context)
      : block_(block), content_(context.out, block.keep_after) {
    between_ = block.open;
    for (const std::string_view marker : block.dropped)
      if (!contains(between_, marker)) between_.push_back(marker);
    after_call_ = between_;
    after_call_.insert(after_call_.end(), block.close.begin(), block.close.end());
    begin_ = between_;
    if (block.bare != 0) {
      const std::string_view bare = block.bare == '{' ? "{" : "[";
      begin_.push_back(bare);
      if (!block.bare_first) between_.push_back(bare);
    }
  }

  const Markers& markers() const override {
    static const Markers kNone;
    switch (state_) {
      case State::json:
        return kNone;
      case State::behind:
        return after_call_;
      default:
        return fresh_ ? begin_ : between_;
    }
  }

  std::size_t on_text(std::string_view text) override {
    switch (state_) {
      case State::json:
        return on_json(text);
      case State::behind:
        return on_behind(text);
      default:
        if (fresh_) {
          const std::size_t first = text.find_first_not_of(" \t\r\n");
          fresh_ = first == std::string_view::npos;
          if (!fresh_ && block_.bare_first) {  // a bare list counts only before any other text
            put_text(text.substr(0, first + 1));
            return first + 1;
          }
        }
        put_text(text);
        return text.size();
    }
  }

  void on_marker(std::string_view marker) override {
    if (state_ == State::behind && contains(block_.close, marker)) {
      state_ = State::content;
      return;
    }
    if (contains(block_.open, marker)) {
      begin_json(marker, {});
    } else if (marker == "{" || marker == "[") {
      begin_json({}, kFirstKeys);
      scanner_->take(marker);
    }
    fresh_ = false;
  }

  void on_end() override {
    if (state_ == State::json) give_up();
    citations_.finish([&](std::string_view out) { content_.text(out); });
  }

  bool uses_special(std::string_view token) const override {
    return any_holds(begin_, token) || any_holds(after_call_, token);
  }

 private:
  enum class State { content, json, behind };

  void put_text(std::string_view text) {
    if (block_.cites)
      citations_.push(text, [&](std::string_view out) { content_.text(out); });
    else
      content_.text(text);
  }

  void begin_json(std::string_view marker, const Markers& first_keys) {
    state_ = State::json;
    lead_ = marker;
    scanner_.emplace(first_keys);
  }

  // Not a call: passes it on as text.
  void give_up() {
    content_.malformed(lead_ + scanner_->raw());
    state_ = State::content;
  }

  std::size_t on_json(std::string_view text) {
    std::size_t space = 0;
    if (scanner_->raw().empty()) {  // white space between marker and JSON
      space = std::min(text.find_first_not_of(" \t\r\n"), text.size());
      lead_ += text.substr(0, space);
    }
    const std::size_t taken = space + scanner_->take(text.substr(space));
    if (scanner_->state() == JsonScanner::State::failed) {
      give_up();
    } else if (scanner_->state() == JsonScanner::State::done) {
      if (report_calls())
        state_ = State::behind;
      else
        give_up();
    }
    return taken;
  }

  // Handles text between a call and its closing marker, or the next call.
  std::size_t on_behind(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n;,");
    if (first == std::string_view::npos) return text.size();
    if (text[first] == '{' || text[first] == '[') {
      begin_json({}, kFirstKeys);
      return first;
    }
    state_ = State::content;
    return first;
  }

  bool report_calls() {
    std::vector<WrittenCall> calls;
    const std::string& raw = scanner_->raw();
    if (!parse_json(raw)) return false;
    if (raw.front() == '[') {
      for (const JsonMember& element : json_members(raw))
        if (!read_calls(element.value, calls)) return false;
    } else if (!read_calls(raw, calls)) {
      return false;
    }
    for (const WrittenCall& call : calls) content_.call(call);
    return !calls.empty();
  }

  bool read_calls(std::string_view object, std::vector<WrittenCall>& calls) const {
    if (!object.starts_with('{')) return false;
    const std::vector<JsonMember> members = json_members(object);
    if (block_.name_is_key) {
      for (const JsonMember& member : members)
        calls.push_back({.name = member.key, .arguments = std::string(member.value)});
      return !members.empty();
    }
    WrittenCall call;
    const JsonMember* arguments = nullptr;
    for (const JsonMember& member : members) {
      if (member.key == block_.name_key) {
        const auto name = parse_json(member.value);
        if (!name || !name->is_string()) return false;
        call.name.assign(name->get_string().data(), name->get_string().size());
      } else if (contains(block_.argument_keys, member.key) &&
                 (arguments == nullptr || member.key == block_.argument_keys.front())) {
        arguments = &member;
      }
    }
    if (call.name.empty() || (arguments == nullptr && !block_.arguments_optional)) return false;
    call.arguments =
        arguments == nullptr || arguments->value == "null" ? "{}" : std::string(arguments->value);
    calls.push_back(std::move(call));
    return true;
  }

  const JsonBlock& block_;
  ContentPolicy content_;
  Markers begin_, between_, after_call_;
  State state_ = State::content;
  bool fresh_ = true;  // only white space so far
  std::string lead_;   // the marker and the white space after it
  std::optional<JsonScanner> scanner_;
  CitationFilter citations_;
};

std::unique_ptr<AnswerStage> make_json_stage(const ToolContext& context, std::string_view name) {
  for (const JsonBlock& block : kBlocks)
    if (block.name == name) return std::make_unique<JsonBlockStage>(block, context);
  return nullptr;
}

}  // namespace

std::vector<ToolFormat> json_block_formats() {
  std::vector<ToolFormat> formats;
  for (const JsonBlock& block : kBlocks)
    formats.push_back({.name = block.name, .make = make_json_stage, .template_signs = block.template_signs});
  return formats;
}

}  // namespace pagoda::answer
