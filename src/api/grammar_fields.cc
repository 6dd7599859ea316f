#include "api/grammar_fields.h"

#include <boost/json.hpp>
#include <string>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using Kind = GrammarSpec::Kind;

struct NamedKind {
  std::string_view name;
  Kind kind;
};
// Kinds of structured_outputs; with the prefix "guided_" they are vLLM's older fields, except the last one.
constexpr NamedKind kKinds[] = {{"json", Kind::json_schema},        {"regex", Kind::regex},
                                {"choice", Kind::choice},           {"grammar", Kind::grammar},
                                {"json_object", Kind::json_object}, {"structural_tag", Kind::structural_tag}};

// Collects the single constraint that a request may have.
class Wish {
 public:
  explicit Wish(FieldReader& fields) : fields_(fields) {}
  void add(std::string_view name, std::optional<GrammarSpec> spec) {
    if (!spec) return;
    // The library guidance sends the same grammar under vLLM's old and new names.
    if (spec_ && spec_->kind == spec->kind && spec_->text == spec->text) return;
    if (spec_) fields_.fail(name, concat("cannot be combined with '", spec_->param, "'"));
    spec_ = std::move(spec);
  }
  std::optional<GrammarSpec> take() { return std::move(spec_); }

 private:
  FieldReader& fields_;
  std::optional<GrammarSpec> spec_;
};

const json::value* value_of_kind(const FieldReader& fields, std::string_view name, Kind kind) {
  switch (kind) {
    case Kind::json_object:
      return fields.raw(name, {"boolean"});
    case Kind::choice:
      return fields.raw(name, {"array"});
    case Kind::json_schema:
      return fields.raw(name, {"object", "string", "boolean"});
    case Kind::structural_tag:
      return fields.raw(name, {"object", "string"});
    default:
      return fields.raw(name, {"string"});
  }
}

// Reads a value of `kind`. A schema may be JSON or a string with its text.
std::optional<GrammarSpec> read_kind(FieldReader& fields, std::string_view name, Kind kind) {
  const json::value* value = value_of_kind(fields, name, kind);
  if (value == nullptr) return std::nullopt;
  GrammarSpec spec{.kind = kind, .text = {}, .param = fields.path_of(name)};
  const json::string* text = value->if_string();
  switch (kind) {
    case Kind::json_object:
      if (!fields.boolean(name).value_or(false)) return std::nullopt;
      return spec;
    case Kind::choice:
      if (!value->is_array()) fields.fail(name, "must be a list of strings");
      spec.text = json::serialize(*value);
      return spec;
    case Kind::json_schema:
    case Kind::structural_tag:
      if (text == nullptr && !value->is_object() && !(value->is_bool() && kind == Kind::json_schema))
        fields.fail(name, "must be an object, or a string that holds one");
      spec.text = text != nullptr ? std::string(*text) : json::serialize(*value);
      spec.special_tokens = kind == Kind::structural_tag;
      return spec;
    case Kind::regex:
    case Kind::grammar:
      if (text == nullptr || text->empty())
        fields.fail(name, "must be a non-empty string");
      else
        spec.text = std::string(*text);
      return spec;
  }
  return std::nullopt;
}

}  // namespace

std::optional<GrammarSpec> read_response_format(FieldReader& fields, std::string_view name) {
  const json::object* format = fields.object(name);
  if (format == nullptr) return std::nullopt;
  FieldReader inner(*format, fields.path_of(name));
  const std::string type = inner.string("type", 64).value_or("");
  std::optional<GrammarSpec> spec;
  if (type == "json_object" || type == "json") {
    // llama.cpp's server accepts a schema here, too; TGI's clients call it `value`.
    spec = read_kind(inner, "schema", Kind::json_schema);
    if (!spec) spec = read_kind(inner, "value", Kind::json_schema);
    if (!spec) spec = GrammarSpec{.kind = Kind::json_object, .text = {}, .param = fields.path_of(name)};
  } else if (type == "json_schema") {
    const std::string_view place = inner.has("json_schema") ? "json_schema" : "value";
    if (const json::object* nested = inner.object(place)) {
      FieldReader schema(*nested, inner.path_of(place));
      spec = read_kind(schema, "schema", Kind::json_schema);
      if (!spec && schema.ok()) schema.fail("schema", "is required");
      const bool strict = schema.boolean("strict").value_or(true);
      if (spec) spec->most = !strict;
      if (!schema.ok()) inner.fail(schema.status());
    } else if (inner.ok()) {
      spec = read_kind(inner, "schema", Kind::json_schema);
      if (!spec && inner.ok()) inner.fail("json_schema", "is required");
      const bool strict = inner.boolean("strict").value_or(true);
      if (spec) spec->most = !strict;
    }
  } else if (type == "structural_tag") {
    spec = GrammarSpec{.kind = Kind::structural_tag,
                       .text = json::serialize(*format),
                       .param = fields.path_of(name),
                       .special_tokens = true};
  } else if (type == "regex" || type == "grammar") {  // TGI, Fireworks
    const std::string place = inner.has("value") ? "value" : type;
    spec = read_kind(inner, place, type == "regex" ? Kind::regex : Kind::grammar);
    if (!spec && inner.ok()) inner.fail(place, "is required");
  } else if (type != "text" && inner.ok()) {
    inner.fail("type",
               "must be 'text', 'json_object', 'json_schema', 'regex', 'grammar' or 'structural_tag'");
  }
  if (!inner.ok()) fields.fail(inner.status());
  return spec;
}

std::optional<GrammarSpec> read_grammar(FieldReader& fields, const ApiContext& context) {
  Wish wish(fields);
  wish.add("response_format", read_response_format(fields, "response_format"));
  if (const json::object* outputs = fields.object("structured_outputs")) {
    FieldReader inner(*outputs, "structured_outputs");
    Wish one(inner);
    for (const auto& [name, kind] : kKinds) one.add(name, read_kind(inner, name, kind));
    std::optional<GrammarSpec> spec = one.take();
    // All whitespace patterns that clients send, such as "[ ]?" and "[
    // \t ]*", also allow no whitespace.
    bool compact = inner.boolean("disable_any_whitespace").value_or(false);
    if (const std::optional<std::string> pattern = inner.string("whitespace_pattern", 256)) {
      const bool optional = pattern->empty() || pattern->ends_with('*') || pattern->ends_with('?') ||
                            pattern->find("{0,") != std::string::npos;
      if (!optional) inner.fail("whitespace_pattern", "must allow no whitespace, such as '[ ]?'");
      compact = true;
    }
    if (spec) spec->compact = compact;
    if (!spec && inner.ok())
      fields.fail("structured_outputs",
                  "needs one of json, regex, choice, grammar, json_object, structural_tag");
    if (!inner.ok()) fields.fail(inner.status());
    wish.add("structured_outputs", std::move(spec));
  }
  // Clients of llama.cpp send an empty string for no grammar.
  const auto add = [&](std::string_view name, Kind kind) {
    const json::value* value = fields.whole().if_contains(name);
    const bool is_empty = value != nullptr && value->is_string() && value->get_string().empty();
    std::optional<GrammarSpec> spec;
    if (is_empty)
      (void)fields.has(name);  // marks the field as known
    else
      spec = read_kind(fields, name, kind);
    wish.add(name, std::move(spec));
  };
  for (const auto& [name, kind] : kKinds)
    if (kind != Kind::structural_tag) add(concat("guided_", name), kind);
  add("grammar", Kind::grammar);
  add("json_schema", Kind::json_schema);
  add("regex", Kind::regex);
  add("ebnf", Kind::grammar);
  std::optional<GrammarSpec> spec = wish.take();
  if (spec && context.grammars == nullptr)
    fields.not_built(spec->param.substr(0, spec->param.find('.')),
                     "this build has no structured output (it was built without XGrammar)");
  return spec;
}

std::optional<GrammarSpec> read_llamacpp_grammar(FieldReader& fields) {
  Wish wish(fields);
  const json::value* grammar = fields.raw("grammar", {"string"});
  if (grammar != nullptr && !(grammar->is_string() && grammar->as_string().empty()))
    wish.add("grammar", read_kind(fields, "grammar", Kind::grammar));
  wish.add("json_schema", read_kind(fields, "json_schema", Kind::json_schema));
  return wish.take();
}

std::optional<GrammarSpec> read_ollama_format(FieldReader& fields) {
  const json::value* format = fields.raw("format", {"string", "object"});
  if (format == nullptr || (format->is_string() && format->as_string().empty())) return std::nullopt;
  const std::string param = fields.path_of("format");
  if (format->is_string() && format->as_string() == "json")
    return GrammarSpec{.kind = Kind::json_object, .text = {}, .param = param};
  if (format->is_object())
    return GrammarSpec{.kind = Kind::json_schema, .text = json::serialize(*format), .param = param};
  fields.fail("format", "must be 'json' or a JSON Schema");
  return std::nullopt;
}

}  // namespace pagoda
