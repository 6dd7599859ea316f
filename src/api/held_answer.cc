#include "api/held_answer.h"

#include <algorithm>
#include <boost/json.hpp>

#include "api/call_arguments.h"
#include "api/field_reader.h"
#include "base/strings.h"
#include "constraint/grammar_text.h"
#include "text/answer_formats.h"
#include "text/call_shape.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::string_view kSpace = "[ \\n]{0,4}";  // between the reasoning and the constrained part

// The shape's `middle`, with "{name}" replaced by the tool's name.
std::string middle_of(const CallShape& shape, std::string_view name) {
  constexpr std::string_view kName = "{name}";
  const std::size_t at = shape.middle.find(kName);
  if (at == std::string_view::npos) return std::string(shape.middle);
  return concat(shape.middle.substr(0, at), name, shape.middle.substr(at + kName.size()));
}

// The arguments of a tool by its schema, or as any object.
Result<json::value> arguments_of(const ToolSpec& tool, const CallShape& shape, bool any,
                                 std::vector<std::string>& left_out) {
  json::object schema = tool.parameters;
  if (any && !tool.text)
    schema = {{"type", "object"}, {"additionalProperties", true}};
  else if (schema.empty())
    schema = {{"type", "object"}, {"additionalProperties", false}};
  else if (!schema.contains("type") && !schema.contains("$ref") && !schema.contains("anyOf"))
    schema["type"] = "object";
  if (tool.text && !tool.text->grammar.empty()) {
    if (shape.style != "json") return unimplemented("a grammar for text is only supported inside JSON");
    const json::object inside{{"type", "json_string"},
                              {"tool", tool.name},
                              {"syntax", tool.text->syntax},
                              {"grammar", tool.text->grammar}};
    return sequence_of({const_string("{\"input\": \""), inside, const_string("\"}")});
  }
  if (is_own_style(shape.style)) return own_arguments(schema, shape.style, tool.strict ? nullptr : &left_out);
  json::object part = {{"type", "json_schema"}, {"json_schema", std::move(schema)}, {"style", shape.style}};
  if (!tool.strict && !any) part[kMaxOfSchema] = true;
  return json::value(std::move(part));
}

class Builder {
 public:
  Builder(const AnswerWishes& wishes, const CallShape& shape, const AnswerParserOptions& parser,
          const Tokenizer& tokenizer)
      : tokenizer_(tokenizer),
        wishes_(wishes),
        shape_(shape),
        parser_(parser),
        reasoning_(reasoning_of(parser)) {}

  // Formats that read whole messages contain reasoning, even if no reasoning parser is configured.
  static ReasoningShape reasoning_of(const AnswerParserOptions& parser) {
    if (!parser.reasoning_parser.empty()) return reasoning_shape(parser.reasoning_parser);
    return reads_whole_messages(parser.tool_parser) ? reasoning_shape(parser.tool_parser) : ReasoningShape();
  }

  bool has_reasoning() const { return !reasoning_.end.empty(); }

  // `any`: tools that are not strict accept any object.
  Result<GrammarSpec> build(bool any) {
    any_ = any;
    left_out_.clear();
    json::array elements;
    if (has_reasoning()) elements.push_back(reasoning());
    Result<json::value> rest = answer();
    if (!rest) return rest.error();
    elements.push_back(*std::move(rest));
    json::value tag = {{"type", "structural_tag"}, {"format", sequence_of(std::move(elements))}};
    return GrammarSpec{.kind = GrammarSpec::Kind::structural_tag,
                       .text = json::serialize(tag),
                       .param = wishes_.form && !calls_wanted() ? wishes_.form->param
                                : calls_wanted()                ? "tools"
                                                                : "thinking_token_budget",
                       .special_tokens = true,
                       .left_out = left_out_};
  }

 private:
  bool calls_wanted() const {
    return !wishes_.tools.empty() && wishes_.choice.kind != ToolChoice::Kind::none;
  }
  bool open() const { return parser_.starts_in_reasoning.value_or(false); }

  // Parts for `text`, with each "<|…|>" marker as its special token.
  json::array said(std::string_view text) const {
    json::array out;
    while (!text.empty()) {
      const std::size_t end = text.starts_with("<|") ? text.find("|>") : std::string_view::npos;
      const std::string_view marker =
          end == std::string_view::npos ? text.substr(0, 0) : text.substr(0, end + 2);
      const std::optional<TokenId> token = marker.empty() ? std::nullopt : tokenizer_.find(marker);
      if (token && tokenizer_.is_special(*token)) {
        out.push_back({{"type", "token"}, {"token", *token}});
        text.remove_prefix(marker.size());
        continue;
      }
      const std::string_view plain = text.substr(0, text.find("<|", 1));
      out.push_back(const_string(plain));
      text.remove_prefix(plain.size());
    }
    return out;
  }

  // Reasoning in separate messages (harmony): "<|channel|>analysis<|message|>…<|end|><|start|>assistant".
  json::value reasoning_message() const {
    json::array parts = said(reasoning_.begin);
    json::object text = {{"type", "any_tokens"}};
    if (wishes_.thinking_budget) text["max_tokens"] = *wishes_.thinking_budget;
    json::array excluded;
    for (const std::string_view marker :
         {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|call|>"})
      if (const auto token = tokenizer_.find(marker)) excluded.push_back(*token);
    text["exclude_tokens"] = std::move(excluded);
    const auto is_token = [](const json::value& part) { return part.at("type") == "token"; };
    if (!is_token(parts.back()) || !is_token(said(reasoning_.end).front())) {  // absent from the vocabulary
      text = {{"type", "any_text"}};
      if (wishes_.thinking_budget) text["max_tokens"] = *wishes_.thinking_budget;
      json::value tag = {
          {"type", "tag"}, {"begin", reasoning_.begin}, {"content", text}, {"end", reasoning_.end}};
      return {{"type", "optional"},
              {"content", sequence_of({std::move(tag), const_string(reasoning_.behind)})}};
    }
    json::value begin = std::move(parts.back());
    parts.back() = {{"type", "tag"},
                    {"begin", std::move(begin)},
                    {"content", text},
                    {"end", said(reasoning_.end).front()}};
    for (json::value& part : said(reasoning_.behind)) parts.push_back(std::move(part));
    return {{"type", "optional"}, {"content", sequence_of(std::move(parts))}};
  }

  json::value reasoning() const {
    if (reasoning_.by_token) return reasoning_message();
    json::object text = {{"type", "any_text"}};
    json::value end;
    // An end marker that is a single token can be forced. With several tokens, the model could write the
    // beginning of the marker forever.
    const std::optional<TokenId> token = tokenizer_.find(reasoning_.end);
    if (wishes_.thinking_budget && token) {
      text = {{"type", "any_tokens"}};
      end = {{"type", "token"}, {"token", *token}};
    } else {
      json::array ends = {json::string(reasoning_.end)};
      for (const std::string_view more : reasoning_.more_ends) ends.push_back(json::string(more));
      end = std::move(ends);
    }
    if (wishes_.thinking_budget) text["max_tokens"] = *wishes_.thinking_budget;
    json::value tag = {{"type", "tag"},
                       {"begin", open() ? std::string_view() : reasoning_.begin},
                       {"content", text},
                       {"end", end}};
    if (open()) return tag;
    return {{"type", "optional"}, {"content", std::move(tag)}};
  }

  Result<json::value> answer() {
    const bool forced = wishes_.choice.forced();
    if (calls_wanted() && (forced || wishes_.form)) {
      Result<json::value> section = call_section();
      if (!section) return section.error();
      const json::value calls = *std::move(section);
      if (forced) return behind_space(calls);
      Result<json::value> form = content_of(*wishes_.form);
      if (!form) return form.error();
      return behind_space({{"type", "or"}, {"elements", json::array{*std::move(form), calls}}});
    }
    if (wishes_.form) {
      Result<json::value> form = content_of(*wishes_.form);
      if (!form) return form.error();
      return behind_space(*std::move(form));
    }
    json::array excluded;  // reasoning that starts later would not be constrained
    if (has_reasoning() && !reasoning_.by_token) excluded.push_back(json::string(reasoning_.begin));
    if (!calls_wanted()) return json::value{{"type", "any_text"}, {"excludes", excluded}};
    Result<json::array> made = call_tags(shape_.begin);
    if (!made) return made.error();
    json::array tags = *std::move(made);
    if (!shape_.section_begin.empty())
      tags = {{{"type", "tag"},
               {"begin", shape_.section_begin},
               {"content", several(std::move(tags))},
               {"end", shape_.section_end}}};
    return json::value{{"type", "triggered_tags"},
                       {"triggers", json::array{json::string(shape_.trigger())}},
                       {"tags", tags},
                       {"stop_after_first", !wishes_.parallel_calls},
                       {"excludes", excluded}};
  }

  json::value behind_space(json::value rest) const {
    if (!has_reasoning() || reasoning_.by_token) return rest;
    return sequence_of({{{"type", "regex"}, {"pattern", kSpace}}, std::move(rest)});
  }

  // `begin`: the part of a call's opening that belongs to its tag.
  Result<json::array> call_tags(std::string_view begin) {
    json::array tags;
    for (const ToolSpec& tool : wishes_.tools) {
      if (wishes_.choice.kind == ToolChoice::Kind::named && tool.name != wishes_.choice.name) continue;
      json::array inside;
      if (shape_.by_token) inside = said(shape_.middle);
      Result<json::value> arguments = arguments_of(tool, shape_, any_ && !tool.strict, left_out_);
      if (!arguments) return arguments.error();
      inside.push_back(*std::move(arguments));
      tags.push_back(
          {{"type", "tag"},
           {"begin", concat(begin, tool.name, shape_.by_token ? "" : middle_of(shape_, tool.name))},
           {"content", sequence_of(std::move(inside))},
           {"end", shape_.end}});
    }
    return tags;
  }
  json::value several(json::array tags) const {
    const bool one =
        !wishes_.parallel_calls || !shape_.repeats || wishes_.choice.kind == ToolChoice::Kind::named;
    return {{"type", "tags_with_separator"},
            {"tags", std::move(tags)},
            {"separator", shape_.separator},
            {"at_least_one", true},
            {"stop_after_first", one}};
  }
  Result<json::value> call_section() {
    if (shape_.by_token) {  // a tag begins with text, so the token before it is a separate part
      json::array parts = said(shape_.begin);
      const std::string_view text = parts.back().at("value").as_string();
      Result<json::array> tags = call_tags(std::string(text));
      if (!tags) return tags.error();
      json::value calls = several(*std::move(tags));
      parts.back() = std::move(calls);
      return sequence_of(std::move(parts));
    }
    Result<json::array> tags = call_tags(shape_.begin);
    if (!tags) return tags.error();
    json::value calls = several(*std::move(tags));
    if (shape_.section_begin.empty()) return calls;
    return sequence_of(
        {const_string(shape_.section_begin), std::move(calls), const_string(shape_.section_end)});
  }

  // The content constrained to `form`, with the marker that opens it.
  Result<json::value> content_of(const GrammarSpec& form) const {
    Result<json::value> part = form_of(form);
    if (!part || reasoning_.answer_begin.empty()) return part;
    json::array parts = said(reasoning_.answer_begin);
    parts.push_back(*std::move(part));
    return sequence_of(std::move(parts));
  }

  // Converts a form to a part of a structural tag.
  static Result<json::value> form_of(const GrammarSpec& form) {
    const auto part = [](std::string_view type, std::string_view key, json::value value) {
      return json::value{{"type", type}, {key, std::move(value)}};
    };
    const auto spaced = [&](json::value value) {
      if (form.compact) value.as_object()["max_whitespace_cnt"] = 0;
      return value;
    };
    const auto refused = [&](const Status& status) {
      return bad_field(form.param, "cannot be used: " + status.message()).with_reason("invalid_grammar");
    };
    switch (form.kind) {
      case GrammarSpec::Kind::json_object:
        return spaced(
            part("json_schema", "json_schema", {{"type", "object"}, {"additionalProperties", true}}));
      case GrammarSpec::Kind::json_schema: {
        Result<json::value> schema = parse_grammar_json(form.text);
        if (!schema) return refused(schema.error());
        json::value held = part("json_schema", "json_schema", *std::move(schema));
        if (form.most) held.as_object()[kMaxOfSchema] = true;
        return spaced(std::move(held));
      }
      case GrammarSpec::Kind::regex:
        return part("regex", "pattern", json::string(form.text));
      case GrammarSpec::Kind::choice: {
        const Result<std::string> grammar = choice_grammar(form.text);
        if (!grammar) return refused(grammar.error());
        return part("grammar", "grammar", json::string(*grammar));
      }
      case GrammarSpec::Kind::grammar:
        if (is_lark(form.text))
          return bad_field(form.param, "cannot be in Lark syntax together with tools or reasoning");
        return part("grammar", "grammar", json::string(form.text));
      case GrammarSpec::Kind::structural_tag: {
        Result<json::value> format = structural_format(form.text);
        if (!format) return refused(format.error());
        return format;
      }
    }
    return internal_error("unknown form of an answer");
  }

  const Tokenizer& tokenizer_;
  const AnswerWishes& wishes_;
  const CallShape& shape_;
  const AnswerParserOptions& parser_;
  const ReasoningShape reasoning_;
  bool any_ = false;
  std::vector<std::string> left_out_;
};

bool all_writable(const AnswerWishes& wishes, const CallShape& shape) {
  return std::ranges::all_of(wishes.tools, [&](const ToolSpec& tool) {
    std::vector<std::string> left_out;
    const Result<json::value> arguments = arguments_of(tool, shape, false, left_out);
    return arguments || arguments.error().code() != StatusCode::unimplemented;
  });
}

}  // namespace

Result<std::vector<GrammarSpec>> hold_answer(const AnswerWishes& wishes, const ApiContext& context,
                                             AnswerParserOptions& parser) {
  const bool forced = wishes.choice.forced();
  if (forced && wishes.tools.empty()) return bad_field("tool_choice", "needs 'tools'");
  if (wishes.choice.kind == ToolChoice::Kind::named &&
      std::ranges::none_of(wishes.tools,
                           [&](const ToolSpec& tool) { return tool.name == wishes.choice.name; }))
    return bad_field("tool_choice", concat("names '", wishes.choice.name, "', which is not in 'tools'"));
  if (context.grammars == nullptr) {
    if (!forced && !wishes.thinking_budget) return std::vector<GrammarSpec>();
    const std::string_view param = forced ? "tool_choice" : "thinking_token_budget";
    return unimplemented(concat("'", param, "' is not supported: this build has no structured output."))
        .with_param(std::string(param))
        .with_reason("unsupported_parameter");
  }
  const CallShape* shape = find_call_shape(
      parser.tool_parser, [&](std::string_view token) { return context.tokenizer->find(token).has_value(); });
  const bool strict = std::ranges::any_of(wishes.tools, &ToolSpec::strict);
  const bool automatic = !wishes.tools.empty() && wishes.choice.kind == ToolChoice::Kind::automatic;
  // A call that the model's own style cannot express is written in hermes style.
  if (forced && shape != nullptr && is_own_style(shape->style) && !all_writable(wishes, *shape)) {
    shape = &hermes_call_shape();
    parser.tool_parser = shape->tool_parser;
  }
  if ((forced || (automatic && strict)) && shape == nullptr) {
    // A format without a call shape: a forced call is written and parsed in hermes style.
    if (!parser.tool_parser.empty() && reads_whole_messages(parser.tool_parser))
      return bad_field(
          forced ? "tool_choice" : "tools.strict",
          concat("is not available with the format '", parser.tool_parser, "' of this model's answers"));
    if (forced) parser.tool_parser = hermes_call_shape().tool_parser;
    if (forced) shape = &hermes_call_shape();
  }
  // Automatic calls are constrained only for strict tools or a requested form.
  const bool held_calls =
      forced || (automatic && (strict || wishes.form) && shape != nullptr && shape->marked);
  AnswerWishes known = wishes;
  if (forced) known.form = std::nullopt;  // the form applies to a final text, and a forced call has none
  const bool whole_form = known.form && Builder::reasoning_of(parser).end.empty() && !held_calls;
  if (whole_form) return std::vector<GrammarSpec>{*wishes.form};
  if (!held_calls) known.tools = {};
  if (!held_calls && !wishes.form && !wishes.thinking_budget) return std::vector<GrammarSpec>();
  const CallShape& written =
      shape != nullptr ? *shape : hermes_call_shape();  // without a shape, no calls are constrained
  Builder builder(known, written, parser, *context.tokenizer);
  if (wishes.thinking_budget && !builder.has_reasoning())
    return bad_field("thinking_token_budget",
                     "is not available: this model's reasoning is not parsed (--reasoning-parser)");
  std::vector<GrammarSpec> grammars;
  for (const bool any : {false, true}) {
    if (any && !held_calls) break;
    Result<GrammarSpec> grammar = builder.build(any);
    if (!grammar && held_calls && is_own_style(written.style)) {
      // A tool whose schema cannot be enforced accepts any object, unless it is strict.
      if (!any && !strict) continue;
      return bad_field("tools", concat("cannot be used: ", grammar.error().message()));
    }
    if (!grammar) return grammar.error();
    if (grammars.empty() || grammars.back().text != grammar->text) grammars.push_back(*std::move(grammar));
  }
  parser.calls_forced = forced;
  parser.held_shape = held_calls && written.style == "json" ? &written : nullptr;
  return grammars;
}

}  // namespace pagoda
