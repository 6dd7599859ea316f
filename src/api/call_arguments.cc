#include "api/call_arguments.h"

#include <algorithm>
#include <boost/json.hpp>
#include <vector>

#include "base/strings.h"
#include "constraint/number_patterns.h"
#include "constraint/schema_check.h"

namespace pagoda {

namespace json = boost::json;

json::value const_string(std::string_view text) { return {{"type", "const_string"}, {"value", text}}; }
json::value sequence_of(json::array elements) {
  if (elements.size() == 1) return std::move(elements.front());
  return {{"type", "sequence"}, {"elements", std::move(elements)}};
}

namespace {

constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxOptionalFirst = 16;  // any may come first, so all cases are written out

enum class Values { json, bare_strings, quoted_strings };

struct OwnStyle {
  std::string_view name;
  std::string_view before_key, after_key;  // text around an argument's key
  std::string_view after_value = {};
  std::string_view separator = {};
  Values values = Values::json;
  std::string_view quote = {};           // quote around strings
  std::string_view after_text_key = {};  // replaces after_key before a possible text; empty: after_key
};

constexpr OwnStyle kStyles[] = {
    {.name = "python", .before_key = "", .after_key = "=", .separator = ", "},
    {.name = "gemma",
     .before_key = "",
     .after_key = ":",
     .separator = ",",
     .values = Values::quoted_strings,
     .quote = "<|\"|>"},
    {.name = "function_gemma",
     .before_key = "",
     .after_key = ":",
     .separator = ",",
     .values = Values::quoted_strings,
     .quote = "<escape>"},
    {.name = "qwen",
     .before_key = "<parameter=",
     .after_key = ">\n",
     .after_value = "\n</parameter>\n",
     .values = Values::bare_strings},
    {.name = "glm",
     .before_key = "<arg_key>",
     .after_key = "</arg_key>\n<arg_value>",
     .after_value = "</arg_value>\n",
     .values = Values::bare_strings},
    {.name = "glm_dense",
     .before_key = "<arg_key>",
     .after_key = "</arg_key><arg_value>",
     .after_value = "</arg_value>",
     .values = Values::bare_strings},
    {.name = "invoke",
     .before_key = "<parameter name=\"",
     .after_key = "\">",
     .after_value = "</parameter>\n",
     .values = Values::bare_strings},
    {.name = "dsml",
     .before_key = "<｜DSML｜parameter name=\"",
     .after_key = "\" string=\"false\">",
     .after_value = "</｜DSML｜parameter>\n",
     .values = Values::bare_strings,
     .after_text_key = "\" string=\"true\">"},
    {.name = "steptml",
     .before_key = "<steptml:parameter name=\"",
     .after_key = "\">",
     .after_value = "</steptml:parameter>\n",
     .values = Values::bare_strings},
    {.name = "atem",
     .before_key = "<atem:parameter name=\"",
     .after_key = "\">",
     .after_value = "</atem:parameter>\n",
     .values = Values::bare_strings},
    {.name = "param",
     .before_key = "<param name=\"",
     .after_key = "\">",
     .after_value = "</param>\n",
     .values = Values::bare_strings},
};

const OwnStyle* find_style(std::string_view name) {
  for (const OwnStyle& style : kStyles)
    if (style.name == name) return &style;
  return nullptr;
}

json::value one_of(json::array elements) {
  if (elements.size() == 1) return std::move(elements.front());
  return {{"type", "or"}, {"elements", std::move(elements)}};
}
json::value optional(json::value content) { return {{"type", "optional"}, {"content", std::move(content)}}; }
json::value of_schema(const json::value& schema) {
  return {{"type", "json_schema"}, {"json_schema", schema}, {"max_whitespace_cnt", kMaxWhiteSpace}};
}

bool is_name(std::string_view key) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !key.empty() && letter(key.front()) &&
         std::ranges::all_of(key, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

class Writer {
 public:
  Writer(const OwnStyle& style, const json::value& root, std::vector<std::string>* left_out)
      : style_(style), root_(root), left_out_(left_out) {}

  Result<json::value> arguments(const json::object& schema) { return members(schema, /*top=*/true, 0); }

 private:
  static Status cannot(std::string_view what) {
    return unimplemented(concat("this model's call format does not support ", what));
  }

  // If parts may be left out, a value that cannot be written becomes any value.
  Result<json::value> value(const json::value& schema, int depth) {
    Result<json::value> form = written(schema, depth);
    if (form || left_out_ == nullptr) return form;
    left_out_->push_back(form.error().message());
    return any();
  }

  Result<json::value> written(const json::value& schema, int depth) {
    if (depth > kMaxDepth) return cannot("a schema that is nested that deep");
    const json::object& object = schema.as_object();
    if (const json::value* ref = object.if_contains("$ref")) {
      const std::string_view path = ref->as_string();
      const json::object& definitions = root_.as_object().at("$defs").as_object();
      return value(definitions.at(path.substr(path.rfind('/') + 1)), depth + 1);
    }
    for (const std::string_view keyword : {"anyOf", "oneOf", "allOf"})
      if (const json::value* cases = object.if_contains(keyword)) return any_case(cases->as_array(), depth);
    if (const json::value* values = object.if_contains("enum")) return listed(values->as_array());
    const json::value* type = object.if_contains("type");
    if (type == nullptr) return any();
    const std::string_view name = type->as_string();
    if (name == "string") return string(object);
    if (name == "object" && style_.values == Values::quoted_strings) {
      Result<json::value> inside = members(object, false, depth + 1);
      if (!inside) return inside;
      return sequence_of({const_string("{"), *std::move(inside), const_string("}")});
    }
    if (name == "array" && style_.values == Values::quoted_strings) return array(object, depth);
    return nested_ref(schema) ? cannot("a schema with references") : Result<json::value>(of_schema(schema));
  }

  // True if the value may be a bare text.
  static bool may_be_text(const json::value& schema) {
    const json::object& object = schema.as_object();
    if (const json::value* values = object.if_contains("enum"))
      return std::ranges::any_of(values->as_array(), [](const json::value& one) { return one.is_string(); });
    const json::value* type = object.if_contains("type");
    return type == nullptr || *type == "string";
  }

  // True if `part` contains a reference. JSON parts stand alone, without the schema's definitions.
  static bool nested_ref(const json::value& part) {
    if (const json::object* object = part.if_object())
      return std::ranges::any_of(
          *object, [](const auto& entry) { return entry.key() == "$ref" || nested_ref(entry.value()); });
    if (const json::array* list = part.if_array()) return std::ranges::any_of(*list, nested_ref);
    return false;
  }

  Result<json::value> any_case(const json::array& cases, int depth) {
    json::array out;
    for (const json::value& one : cases) {
      Result<json::value> form = value(one, depth + 1);
      if (!form) return form;
      out.push_back(*std::move(form));
    }
    return one_of(std::move(out));
  }

  Result<json::value> listed(const json::array& values) {
    json::array out;
    for (const json::value& one : values) {
      if (style_.values != Values::json && (one.is_object() || one.is_array()))
        return cannot("a list of values with objects in it");
      out.push_back(const_string(one.is_string() && style_.values != Values::json
                                     ? concat(style_.quote, std::string_view(one.as_string()), style_.quote)
                                     : json::serialize(one)));
    }
    return one_of(std::move(out));
  }

  json::value free_text() const { return quoted({{"type", "any_text"}}); }
  json::value quoted(json::value content) const {
    if (style_.quote.empty()) return content;
    return {{"type", "tag"}, {"begin", style_.quote}, {"content", std::move(content)}, {"end", style_.quote}};
  }

  Result<json::value> string(const json::object& schema) {
    if (style_.values == Values::json) return of_schema(schema);
    if (schema.contains("format")) return cannot("a string's 'format'");
    if (const json::value* pattern = schema.if_contains("pattern")) {
      std::string_view text(pattern->as_string());
      if (text.starts_with("(?&")) return cannot("several patterns");
      const bool number = text.starts_with(kNumberPattern);
      if (number) text.remove_prefix(1);
      json::value form = {{"type", "regex"}, {"pattern", text}};
      return number ? form : quoted(std::move(form));
    }
    return free_text();
  }

  json::value any() const {
    if (style_.values == Values::json) return of_schema(json::object());
    json::array out = {of_schema({{"type", "number"}}), const_string("true"), const_string("false"),
                       const_string("null")};
    if (style_.values == Values::bare_strings) return free_text();
    out.push_back(free_text());
    return one_of(std::move(out));
  }

  Result<json::value> array(const json::object& schema, int depth) {
    if (schema.contains("prefixItems")) return cannot("'prefixItems'");
    const json::value* items = schema.if_contains("items");
    Result<json::value> item = items == nullptr || !items->is_object() ? any() : value(*items, depth + 1);
    if (!item) return item;
    const auto count = [&](std::string_view keyword, std::int64_t otherwise) {
      const json::value* number = schema.if_contains(keyword);
      return number == nullptr ? otherwise : number->to_number<std::int64_t>();
    };
    const std::int64_t low = count("minItems", 0), high = count("maxItems", -1);
    json::array parts = {const_string("[")};
    if (high != 0) {
      json::value more = {{"type", "repeat"},
                          {"min", std::max<std::int64_t>(low - 1, 0)},
                          {"max", high < 0 ? -1 : high - 1},
                          {"content", sequence_of({const_string(","), *item})}};
      json::value all = sequence_of({*item, std::move(more)});
      parts.push_back(low == 0 ? optional(std::move(all)) : std::move(all));
    }
    parts.push_back(const_string("]"));
    return sequence_of(std::move(parts));
  }

  // The members of an object, without the text around the object.
  Result<json::value> members(const json::object& schema, bool top, int depth) {
    const std::string_view before = top ? style_.before_key : "";
    const std::string_view behind = top ? style_.after_value : "";
    const json::value* properties = schema.if_contains("properties");
    if (properties == nullptr || properties->as_object().empty())
      return free_members(schema, before, behind, depth);
    std::vector<std::string_view> required;
    if (const json::value* names = schema.if_contains("required"))
      for (const json::value& name : names->as_array()) required.push_back(name.as_string());
    json::array first, rest;  // required members, optional members
    for (const auto& [key, part] : properties->as_object()) {
      if (!is_name(key)) return cannot("argument names with characters other than letters and digits");
      Result<json::value> form = value(part, depth + 1);
      if (!form) return form;
      const std::string_view after = top && !style_.after_text_key.empty() && may_be_text(part)
                                         ? style_.after_text_key
                                         : style_.after_key;
      // A bare text's end marker is part of its tag.
      json::value entry =
          behind.empty()
              ? sequence_of({const_string(concat(before, std::string_view(key), after)), *std::move(form)})
              : json::value{{"type", "tag"},
                            {"begin", concat(before, std::string_view(key), after)},
                            {"content", *std::move(form)},
                            {"end", behind}};
      (std::ranges::find(required, std::string_view(key)) != required.end() ? first : rest)
          .push_back(std::move(entry));
    }
    const auto following = [&](json::value entry) {
      if (style_.separator.empty()) return entry;
      return sequence_of({const_string(style_.separator), std::move(entry)});
    };
    json::array parts;
    for (json::value& entry : first)
      parts.push_back(parts.empty() ? std::move(entry) : following(std::move(entry)));
    if (!parts.empty() || style_.separator.empty()) {
      for (json::value& entry : rest) parts.push_back(optional(following(std::move(entry))));
      return sequence_of(std::move(parts));
    }
    if (rest.size() > kMaxOptionalFirst) return cannot("that many optional arguments without a required one");
    json::array cases;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      json::array from = {rest[i]};
      for (std::size_t j = i + 1; j < rest.size(); ++j) from.push_back(optional(following(rest[j])));
      cases.push_back(sequence_of(std::move(from)));
    }
    return optional(one_of(std::move(cases)));
  }

  // An object without named properties: any members, or none.
  Result<json::value> free_members(const json::object& schema, std::string_view before,
                                   std::string_view behind, int depth) {
    const json::value* more = schema.if_contains("additionalProperties");
    if (more == nullptr || *more == json::value(false)) return const_string("");
    Result<json::value> form =
        more->is_object() && !more->as_object().empty() ? value(*more, depth + 1) : any();
    if (!form) return form;
    constexpr std::string_view kKey = "[a-zA-Z_][a-zA-Z0-9_]{0,30}";
    json::array parts = {
        {{"type", "regex"}, {"pattern", kKey}},
        const_string(behind.empty() || style_.after_text_key.empty() ? style_.after_key
                                                                     : style_.after_text_key)};
    json::value entry;
    if (behind.empty()) {
      parts.push_back(*std::move(form));
      entry = sequence_of(std::move(parts));
    } else {
      parts.push_back({{"type", "tag"}, {"begin", ""}, {"content", *std::move(form)}, {"end", behind}});
      entry = sequence_of({const_string(before), sequence_of(std::move(parts))});
    }
    json::value again =
        style_.separator.empty() ? entry : sequence_of({const_string(style_.separator), entry});
    return optional(
        sequence_of({entry, {{"type", "repeat"}, {"min", 0}, {"max", 15}, {"content", std::move(again)}}}));
  }

  const OwnStyle& style_;
  const json::value& root_;
  std::vector<std::string>* const left_out_;
};

}  // namespace

bool is_own_style(std::string_view style) { return find_style(style) != nullptr; }

Result<json::value> own_arguments(const json::object& schema, std::string_view style,
                                  std::vector<std::string>* left_out) {
  Result<json::value> prepared =
      left_out == nullptr ? prepare_schema(schema) : prepare_most(schema, {}, *left_out);
  if (!prepared) return prepared.error();
  const json::object* object = prepared->if_object();
  if (object == nullptr || !object->contains("type") || object->at("type") != "object")
    return unimplemented("this model's call format does not support arguments that are not an object");
  return Writer(*find_style(style), *prepared, left_out).arguments(*object);
}

}  // namespace pagoda
