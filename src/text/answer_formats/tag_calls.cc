#include "text/answer_formats/tag_calls.h"

#include <utility>

#include "text/answer_formats/json_scanner.h"

namespace pagoda::answer {
namespace {

enum class UnknownTool { pass, drop, text };  // for calls of undeclared tools

struct TagFormat {
  std::string_view name;
  Markers section_open = {}, section_close = {};  // around the calls; empty: calls are not in a section
  Markers call_open, call_close;
  ReadBody read;
  bool bare_calls = false;        // a call may also occur outside a section
  bool section_ends_call = true;  // the section's end also ends an open call
  bool open_ends_call = false;    // the start of the next call ends an open call
  bool cut_is_text = false;       // a truncated call is text
  bool keep_after = false;        // text after calls is content
  UnknownTool unknown = UnknownTool::pass;
  Markers dropped = {};  // markup around the content
  Markers template_signs = {};
};

const TagFormat kTagFormats[] = {
    {.name = "qwen3_coder",
     .section_open = {"<tool_call>"},
     .section_close = {"</tool_call>"},
     .call_open = {"<function="},
     .call_close = {"</function>"},
     .read = read_qwen_xml,
     .bare_calls = true,
     .section_ends_call = false,
     .template_signs = {"<function=", "<parameter="}},
    {.name = "qwen3_xml",
     .section_open = {"<tool_call>"},
     .section_close = {"</tool_call>"},
     .call_open = {"<function="},
     .call_close = {"</function>"},
     .read = read_qwen_xml,
     .bare_calls = true,
     .section_ends_call = false},
    {.name = "mimo",
     .section_open = {"<tool_call>"},
     .section_close = {"</tool_call>"},
     .call_open = {"<function="},
     .call_close = {"</function>"},
     .read = read_qwen_xml,
     .bare_calls = true,
     .section_ends_call = false},
    {.name = "step3p5",
     .section_open = {"<tool_call>"},
     .section_close = {"</tool_call>"},
     .call_open = {"<function="},
     .call_close = {"</function>"},
     .read = read_step3p5,
     .bare_calls = true,
     .keep_after = true},
    {.name = "seed_oss",
     .section_open = {"<seed:tool_call>"},
     .section_close = {"</seed:tool_call>"},
     .call_open = {"<function="},
     .call_close = {"</function>"},
     .read = read_qwen_xml,
     .bare_calls = true,
     .section_ends_call = false,
     .template_signs = {"<seed:tool_call>"}},
    {.name = "hy_v3",
     .section_open = {"<tool_calls>"},
     .section_close = {"</tool_calls>"},
     .call_open = {"<tool_call>"},
     .call_close = {"</tool_call>"},
     .read = read_hunyuan_v3,
     .bare_calls = true,
     .template_signs = {"<tool_sep>"}},
    {.name = "glm45",
     .call_open = {"<tool_call>"},
     .call_close = {"</tool_call>"},
     .read = read_glm,
     .unknown = UnknownTool::drop,
     .template_signs = {"<arg_key>", "<arg_value>"}},
    {.name = "glm47",
     .call_open = {"<tool_call>"},
     .call_close = {"</tool_call>"},
     .read = read_glm,
     .unknown = UnknownTool::drop},
    {.name = "ling3",
     .call_open = {"<tool_call>"},
     .call_close = {"</tool_call>"},
     .read = read_glm,
     .unknown = UnknownTool::drop},
    {.name = "poolside_v1",
     .call_open = {"<tool_call>"},
     .call_close = {"</tool_call>"},
     .read = read_poolside,
     .cut_is_text = true},
    {.name = "minimax_m2",
     .section_open = {"<minimax:tool_call>"},
     .section_close = {"</minimax:tool_call>"},
     .call_open = {"<invoke name="},
     .call_close = {"</invoke>"},
     .read = read_invoke,
     .section_ends_call = false,
     .unknown = UnknownTool::drop,
     .template_signs = {"minimax:tool_call"}},
    {.name = "minimax_m3",
     .section_open = {"]<]minimax[>[<tool_call>"},
     .section_close = {"]<]minimax[>[</tool_call>"},
     .call_open = {"]<]minimax[>[<invoke name="},
     .call_close = {"]<]minimax[>[</invoke>"},
     .read = read_minimax_m3,
     .template_signs = {"]<]minimax[>["}},
    {.name = "dots",
     .section_open = {"<dots_function_call>"},
     .section_close = {"</dots_function_call>"},
     .call_open = {"<invoke name="},
     .call_close = {"</invoke>"},
     .read = read_invoke,
     .unknown = UnknownTool::text,
     .template_signs = {"<dots_function_call>"}},
    {.name = "deepseek_v32",
     .section_open = {"<｜DSML｜function_calls>"},
     .section_close = {"</｜DSML｜function_calls>"},
     .call_open = {"<｜DSML｜invoke name="},
     .call_close = {"</｜DSML｜invoke>"},
     .read = read_dsml,
     .open_ends_call = true,
     .template_signs = {"DSML", "function_calls"}},
    {.name = "deepseek_v4",
     .section_open = {"<｜DSML｜tool_calls>"},
     .section_close = {"</｜DSML｜tool_calls>"},
     .call_open = {"<｜DSML｜invoke name="},
     .call_close = {"</｜DSML｜invoke>"},
     .read = read_dsml,
     .open_ends_call = true,
     .template_signs = {"DSML"}},
    {.name = "step3",
     .section_open = {"<｜tool_calls_begin｜>"},
     .section_close = {"<｜tool_calls_end｜>"},
     .call_open = {"<steptml:invoke name="},
     .call_close = {"</steptml:invoke>"},
     .read = read_steptml,
     .cut_is_text = true,
     .keep_after = true,
     .template_signs = {"<steptml:invoke"}},
    {.name = "minicpm5",
     .call_open = {"<function name="},
     .call_close = {"</function>"},
     .read = read_minicpm5,
     .cut_is_text = true,
     .unknown = UnknownTool::text,
     .template_signs = {"<function name=", "<param name="}},
    {.name = "kimi_k3",
     .section_open = {"<|open|>tools<|sep|>"},
     .section_close = {"<|close|>tools<|sep|>"},
     .call_open = {"<|open|>call"},
     .call_close = {"<|close|>call<|sep|>"},
     .read = read_kimi_k3,
     .dropped = {"<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>"},
     .template_signs = {"<|open|>", "<|sep|>"}},
    {.name = "gemma4",
     .call_open = {"<|tool_call>"},
     .call_close = {"<tool_call|>"},
     .read = read_gemma4,
     .dropped = {"<tool_call|>"},
     .template_signs = {"<|tool_call>"}},
    {.name = "functiongemma",
     .call_open = {"<start_function_call>"},
     .call_close = {"<end_function_call>"},
     .read = read_functiongemma,
     .template_signs = {"<start_function_call>"}},
};

void append(Markers& to, const Markers& from) { to.insert(to.end(), from.begin(), from.end()); }

class TagCallStage final : public AnswerStage {
 public:
  TagCallStage(const TagFormat& format, const ToolContext& context)
      : format_(format), tools_(context.tools), content_(context.out, format.keep_after) {
    append(content_markers_, format.section_open);
    append(content_markers_, format.section_close);
    append(content_markers_, format.dropped);
    if (format.bare_calls || format.section_open.empty()) append(content_markers_, format.call_open);
    append(section_markers_, format.call_open);
    append(section_markers_, format.section_close);
    append(section_markers_, format.section_open);
    append(call_markers_, format.call_close);
    if (format.section_ends_call) append(call_markers_, format.section_close);
    if (format.open_ends_call) append(call_markers_, format.call_open);
  }

  const Markers& markers() const override {
    return state_ == State::content   ? content_markers_
           : state_ == State::section ? section_markers_
                                      : call_markers_;
  }

  std::size_t on_text(std::string_view text) override {
    if (state_ == State::content) {
      content_.text(text);
      return text.size();
    }
    if (state_ == State::section && has_reported_call_) return text.size();  // text between calls is dropped
    raw_ += text;
    (state_ == State::call ? body_ : loose_) += text;
    return text.size();
  }

  void on_marker(std::string_view marker) override {
    if (state_ == State::call) {
      if (contains(format_.call_open, marker)) {  // open_ends_call
        end_call(false);
        return begin_call(marker);
      }
      raw_ += marker;
      end_call(false);
      if (!in_section_ || contains(format_.section_close, marker)) settle();
      return;
    }
    if (contains(format_.call_open, marker)) return begin_call(marker);
    if (contains(format_.section_open, marker)) {
      begin_section();
      raw_ += marker;
      state_ = State::section;
      in_section_ = true;
    } else if (state_ == State::section) {  // its end
      raw_ += marker;
      settle();
    }  // otherwise: an unmatched end marker, or markup
  }

  void on_end() override {
    if (state_ == State::call) end_call(true);
    if (state_ != State::content) settle();
  }

  bool uses_special(std::string_view token) const override {
    return any_holds(content_markers_, token) || any_holds(section_markers_, token) ||
           any_holds(call_markers_, token) || token == "<|\"|>" || token == "<escape>" || token == "<|sep|>";
  }

 private:
  enum class State { content, section, call };

  void begin_call(std::string_view marker) {
    begin_section();
    raw_ += marker;
    body_.clear();
    state_ = State::call;
  }

  // Returns to the section; raw_ is empty if the text was a call.
  void end_call(bool cut) {
    state_ = State::section;
    if (cut && format_.cut_is_text) {
      loose_ += body_;
      return;
    }
    std::optional<TagCall> call = format_.read(body_, {.tools = tools_, .cut = cut});
    if (!call) {
      loose_ += body_;
      return;
    }
    if (!tools_.empty() && tools_.find(call->name) == nullptr) {
      if (format_.unknown == UnknownTool::text) {
        loose_ += body_;
        return;
      }
      if (format_.unknown == UnknownTool::drop) return taken();
    }
    content_.call({.name = std::move(call->name), .arguments = dump_json(call->arguments), .id = {}});
    taken();
  }

  void taken() {
    has_reported_call_ = true;
    raw_.clear();
    loose_.clear();
  }

  // Leaves the section, or the standalone call. Its other content is a call in plain JSON, or text that
  // looked like a call; pure markup is dropped.
  void settle() {
    if (!trim(loose_).empty() && !report_json_call()) content_.malformed(raw_);
    state_ = State::content;
    in_section_ = false;
  }

  bool report_json_call() {
    const auto value = parse_json(loose_);
    if (has_reported_call_ || !value || !value->is_object()) return false;
    const boost::json::value* name = value->get_object().if_contains("name");
    const boost::json::value* arguments = value->get_object().if_contains("arguments");
    if (name == nullptr || !name->is_string() || arguments == nullptr || !arguments->is_object())
      return false;
    const std::string called(name->get_string().data(), name->get_string().size());
    if (format_.unknown != UnknownTool::pass && !tools_.empty() && tools_.find(called) == nullptr)
      return false;
    content_.call({.name = called, .arguments = dump_json(*arguments), .id = {}});
    return true;
  }

  void begin_section() {
    if (state_ != State::content) return;
    raw_.clear();
    loose_.clear();
    has_reported_call_ = false;
  }

  const TagFormat& format_;
  const ToolTypes& tools_;
  ContentPolicy content_;
  Markers content_markers_, section_markers_, call_markers_;
  State state_ = State::content;
  bool in_section_ = false;
  bool has_reported_call_ = false;  // a call of this section was reported
  std::string raw_;                 // text of the section since its last call
  std::string loose_;               // text outside markers and calls
  std::string body_;                // body of the current call
};

std::unique_ptr<AnswerStage> make_tag_stage(const ToolContext& context, std::string_view name) {
  for (const TagFormat& format : kTagFormats)
    if (format.name == name) return std::make_unique<TagCallStage>(format, context);
  return nullptr;
}

}  // namespace

void add_argument(TagCall& call, std::string_view key, std::string_view text, const ToolTypes& tools,
                  ToolTypes::Reading reading) {
  const DeclaredTool* tool = tools.find(call.name);
  call.arguments[key] = ToolTypes::from_text(text, tool, ToolTypes::property(tool, key), reading);
}

std::vector<ToolFormat> tag_call_formats() {
  std::vector<ToolFormat> formats;
  for (const TagFormat& format : kTagFormats)
    formats.push_back({.name = format.name, .make = make_tag_stage, .template_signs = format.template_signs});
  return formats;
}

}  // namespace pagoda::answer
