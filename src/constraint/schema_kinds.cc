// SchemaPreparer: what strings, numbers, arrays and objects may be held to.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <set>
#include <string>

#include "constraint/number_patterns.h"
#include "constraint/pattern_lengths.h"
#include "constraint/schema_preparer.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMaxCount = 20'000;  // of one repetition
constexpr std::int64_t kMaxOptionalPairs =
    90'000;                                  // compiling is quadratic in an object's optional properties
constexpr std::int64_t kMaxMultiple = 1024;  // of XGrammar

// Dates of the calendar: the compiler's own allow the year 0 and 31 days in each month.
const std::string kYear = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
const std::string kLeapYear =
    "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)";
const std::string kDate = kYear +
                          "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
                          "|02-(0[1-9]|1[0-9]|2[0-8]))|" +
                          kLeapYear + "-02-29";
const std::string kWholeDate = "^(" + kDate + ")$";
const std::string kDateTime = "^(" + kDate +
                              ")T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?"
                              "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

// Formats that JSON Schema knows. Other names are annotations.
struct FormatPattern {
  std::string_view name;
  bool held = true;
  std::string_view pattern = {};  // where the compiler's own is not JSON in all cases
};
const FormatPattern kFormats[] = {
    {"date", true, kWholeDate},
    {"time"},
    {"date-time", true, kDateTime},
    {"duration"},
    {"ipv4", true,
     "^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])[.]){3}"
     "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])$"},
    {"ipv6"},
    {"hostname"},
    {"uuid"},
    {"uri"},
    {"uri-reference"},
    {"uri-template"},
    {"email", true,
     "^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+([.][A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@"
     "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$"},
    {"json-pointer", true, "^(/([^/~]|~[01])*)*$"},
    {"relative-json-pointer", true, "^(0|[1-9][0-9]*)(#|(/([^/~]|~[01])*)*)$"},
    {"idn-email", false},
    {"idn-hostname", false},
    {"iri", false},
    {"iri-reference", false},
    {"regex", false}};

// Of the formats whose shape is the compiler's, one that lengths can be said of: it has no other texts.
const std::pair<std::string_view, std::string_view> kPlainFormats[] = {
    {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
    {"duration", "^P[0-9]+[DWMY]$"},
    {"ipv6", "^[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}$"},
    {"hostname", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$"},
    {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
    {"uri", "^[a-z]{2,8}://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[0-9]{1,4})?(/[A-Za-z0-9._~!$&()*+,;=:@/?-]*)?$"},
    {"uri-reference", "^/[A-Za-z0-9._~!$&()*+,;=:@-][A-Za-z0-9._~!$&()*+,;=:@/?-]*$"},
    {"uri-template", "^[A-Za-z0-9._/-]*([{][a-z]+[}][A-Za-z0-9._/-]*)*$"}};

std::string_view pattern_of_format(std::string_view name) {
  for (const FormatPattern& one : kFormats)
    if (one.name == name && !one.pattern.empty()) return one.pattern;
  for (const auto& [format, pattern] : kPlainFormats)
    if (format == name) return pattern;
  return "(?";  // none
}

}  // namespace

bool SchemaPreparer::of_strings(const json::object& schema) {
  if (const json::value* type = schema.if_contains("type")) return *type == "string";
  const json::value* list = schema.if_contains("enum");
  return list != nullptr &&
         std::ranges::all_of(list->as_array(), [](const json::value& v) { return v.is_string(); });
}

Status SchemaPreparer::count(const json::object& object, std::string_view keyword, const std::string& path,
                             json::object& out, std::int64_t cost) {
  const json::value* value = object.if_contains(keyword);
  if (value == nullptr) return ok_status();
  double number = -1;
  if (value->is_number()) number = value->to_number<double>();
  if (number < 0 || number != std::floor(number))
    return refuse(path, concat("has a '", keyword, "' that is no count"));
  if (number > static_cast<double>(kMaxCount))
    return refuse(path, concat("has a '", keyword, "' above ", kMaxCount));
  states_ += cost * static_cast<std::int64_t>(number);
  out[keyword] = static_cast<std::int64_t>(number);
  return ok_status();
}

Status SchemaPreparer::string_case(const json::object& object, const std::string& path, json::object& out) {
  json::object lengths;
  PAGODA_RETURN_IF_ERROR(count(object, "minLength", path, lengths, 1));
  PAGODA_RETURN_IF_ERROR(count(object, "maxLength", path, lengths, 1));
  if (lengths.contains("minLength") && lengths.at("minLength") == 0) lengths.erase("minLength");
  const json::value* pattern = object.if_contains("pattern");
  const json::value* format = object.if_contains("format");
  if (pattern != nullptr && !pattern->is_string()) return refuse(path, "has a 'pattern' that is no string");
  if (format != nullptr && !format->is_string()) return refuse(path, "has a 'format' that is no string");
  const auto named = [&](const FormatPattern& one) {
    return format != nullptr && std::string_view(format->as_string()) == one.name;
  };
  if (const auto known = std::ranges::find_if(kFormats, named); known != std::end(kFormats)) {
    if (!known->held) return not_held("format", path, concat(" '", known->name, "'"));
    if (known->pattern.empty())
      out["format"] = *format;
    else
      out["pattern"] = known->pattern;
  }
  const bool by_format = !out.empty() && (out.contains("format") || out.contains("pattern"));
  if (pattern != nullptr) {
    if (by_format) return not_held("pattern", path, " beside 'format'");
    const std::string ascii = printable_pattern(std::string_view(pattern->as_string()));
    states_ += 4 * static_cast<std::int64_t>(ascii.size());
    if (ascii.empty() || (holds_pattern_ != nullptr && !holds_pattern_(ascii)))
      return not_held("pattern", path,
                      concat(" '", std::string_view(pattern->as_string()).substr(0, 100), "'"));
    out["pattern"] = ascii;
  }
  if (lengths.empty()) return ok_status();
  if (pattern != nullptr || by_format) {
    const auto length = [&](const char* keyword, std::int64_t otherwise) {
      return lengths.contains(keyword) ? lengths.at(keyword).as_int64() : otherwise;
    };
    const std::string_view of = pattern != nullptr ? std::string_view(out.at("pattern").as_string())
                                                   : pattern_of_format(std::string_view(format->as_string()));
    const std::optional<std::string> held =
        pattern_of_lengths(of, length("minLength", 0), length("maxLength", kMaxCount));
    if (!held)
      return not_held(lengths.contains("maxLength") ? "maxLength" : "minLength", path,
                      pattern != nullptr ? " beside 'pattern'" : " beside 'format'");
    out.erase("format");
    out["pattern"] = *held;
    return ok_status();
  }
  const auto bound = [&](std::string_view keyword) {
    return lengths.contains(keyword) ? std::to_string(lengths.at(keyword).as_int64()) : std::string();
  };
  if (bound("maxLength") == "0") {
    out = {{"enum", json::array{""}}};
    return lengths.contains("minLength") ? refuse(path, "has a 'minLength' above its 'maxLength'")
                                         : ok_status();
  }
  if (lengths.contains("minLength") && lengths.contains("maxLength") &&
      lengths.at("minLength").as_int64() > lengths.at("maxLength").as_int64())
    return refuse(path, "has a 'minLength' above its 'maxLength'");
  // Of characters that stand for themselves in JSON.
  out["pattern"] = concat("^[^\"\\\\\\x00-\\x1f]{", lengths.contains("minLength") ? bound("minLength") : "0",
                          ",", bound("maxLength"), "}$");
  return ok_status();
}

std::string SchemaPreparer::printable_pattern(std::string_view pattern) {
  std::string out;
  for (std::size_t at = 0; at < pattern.size();) {
    const auto byte = static_cast<unsigned char>(pattern[at]);
    if (byte >= 0x20 && byte < 0x7f) {
      out.push_back(pattern[at++]);
      continue;
    }
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    if (at + length > pattern.size()) return "";
    std::uint32_t code = length == 1 ? byte : byte & (0xffu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i)
      code = code << 6 | (static_cast<unsigned char>(pattern[at + i]) & 0x3fu);
    if (code > 0xffff) return "";  // there is no escape for it
    char escape[16];
    std::snprintf(escape, sizeof escape, "\\u%04X", code);
    out += escape;
    at += length;
  }
  return out;
}

Status SchemaPreparer::number_case(const json::object& object, const std::string& path, std::string_view type,
                                   json::object& out) {
  int places = 0;
  for (const std::string_view keyword : kOfNumbers) {
    const json::value* value = object.if_contains(keyword);
    if (value == nullptr) continue;
    if (value->is_bool()) return not_held(keyword, path, " as draft 4 has it");
    if (!value->is_number()) return refuse(path, concat("has a '", keyword, "' that is no number"));
    const double number = value->to_number<double>();
    if (keyword == "multipleOf") {
      if (type == "integer" && number > 0 && 1 / number == std::floor(1 / number)) continue;
      if (type == "number" && (number == 0.1 || number == 0.01)) {
        places = number == 0.1 ? 1 : 2;
        continue;
      }
      const double whole = number * 2 == std::floor(number * 2) && number != std::floor(number) ? number * 2 : number;
      if (whole != std::floor(whole) || whole < 1 || whole > kMaxMultiple)
        return not_held(keyword, path, concat(" of ", type));
      if (type == "number") out["type"] = "integer";  // of all multiples those that are whole
      out[keyword] = static_cast<std::int64_t>(whole);
      states_ += static_cast<std::int64_t>(number);
      continue;
    }
    if (std::abs(number) > 9e15) return refuse(path, concat("has a '", keyword, "' of more than 15 digits"));
    if (type == "number") {
      out[keyword] = *value;
    } else {  // the nearest whole number within
      const bool lower = keyword == "minimum" || keyword == "exclusiveMinimum";
      const bool exclusive = keyword.starts_with("exclusive");
      double bound = lower ? std::ceil(number) : std::floor(number);
      if (exclusive && bound == number) bound += lower ? 1 : -1;
      const std::string_view name = lower ? "minimum" : "maximum";
      if (const json::value* other = out.if_contains(name)) {
        const double known = other->to_number<double>();
        bound = lower ? std::max(bound, known) : std::min(bound, known);
      }
      out[name] = static_cast<std::int64_t>(bound);
    }
  }
  if (places > 0) {
    const auto bound = [&](const char* name) {
      return out.contains(name) ? std::optional(out.at(name).to_number<double>()) : std::nullopt;
    };
    if (out.contains("exclusiveMinimum") || out.contains("exclusiveMaximum"))
      return not_held("multipleOf", path, " beside exclusive bounds");
    const auto pattern = decimals(places, bound("minimum"), bound("maximum"));
    if (!pattern) return not_held("multipleOf", path, " beside bounds without a whole number between them");
    out = {{"type", "string"}, {"pattern", concat(std::string(1, kNumberPattern), *pattern)}};
    return ok_status();
  }
  if (out.contains("multipleOf") && (out.contains("exclusiveMinimum") || out.contains("exclusiveMaximum")))
    return not_held("multipleOf", path, " beside exclusive bounds");
  if (!out.contains("multipleOf") || (!out.contains("minimum") && !out.contains("maximum"))) return ok_status();
  const std::optional<json::array> values = multiples(out);
  if (!values) return not_held("multipleOf", path, " beside bounds so far away");
  if (values->empty()) return refuse(path, "has no 'multipleOf' within its bounds").with_reason(std::string(kNoAnswer));
  states_ += static_cast<std::int64_t>(json::serialize(*values).size());
  out = {{"enum", *values}};
  return ok_status();
}

Status SchemaPreparer::array_case(const json::object& object, const std::string& path, std::size_t depth,
                                  json::object& out) {
  if (const json::value* unique = object.if_contains("uniqueItems"); unique != nullptr && *unique != false) {
    const json::value* most = object.if_contains("maxItems");
    const bool single = most != nullptr && most->is_number() && most->to_number<double>() < 2;
    if (!single) return unique_items(object, path, out);
  }
  PAGODA_RETURN_IF_ERROR(count(object, "minItems", path, out, 2));
  PAGODA_RETURN_IF_ERROR(count(object, "maxItems", path, out, 2));
  const json::value* items = object.if_contains("items");
  const json::value* prefix = object.if_contains("prefixItems");
  const json::value* rest = object.if_contains("unevaluatedItems");
  if (items != nullptr && items->is_array()) {  // draft 7
    prefix = items;
    items = object.if_contains("additionalItems");
  }
  if (items == nullptr) items = rest;
  std::size_t length = 0;
  if (prefix != nullptr) {
    if (!prefix->is_array()) return refuse(path, "has 'prefixItems' that are no list");
    json::array parts;
    for (const json::value& entry : prefix->as_array()) {
      json::value part;
      PAGODA_RETURN_IF_ERROR(prepare(entry, at(path, concat("prefixItems/", parts.size())), depth + 1, part));
      parts.push_back(std::move(part));
    }
    length = parts.size();
    if (length > 0) out["prefixItems"] = std::move(parts);
  }
  const json::value any(true);
  if (items == nullptr && length == 0) items = &any;
  if (items != nullptr && items->is_bool() && !items->as_bool()) {
    out["items"] = false;
  } else if (items != nullptr) {
    const Status status = prepare(*items, at(path, "items"), depth + 1, out["items"]);
    if (!status.ok() && status.reason() == kNoAnswer)
      out["items"] = false;
    else
      PAGODA_RETURN_IF_ERROR(status);
  }
  if (out.contains("maxItems") && out.at("maxItems").as_int64() <= static_cast<std::int64_t>(length)) {
    const auto most = static_cast<std::size_t>(out.at("maxItems").as_int64());
    if (length > 0) out.at("prefixItems").as_array().resize(most);
    if (most == 0) out.erase("prefixItems");
    if (length > 0) out["items"] = false;
    if (length > 0) out.erase("maxItems");
  }
  return ok_status();
}

Status SchemaPreparer::unique_items(const json::object& object, const std::string& path, json::object& out) {
  constexpr std::size_t kMostLists = 1000;
  const json::value* items = object.if_contains("items");
  for (const std::string_view word : {"prefixItems", "additionalItems", "unevaluatedItems"})
    if (object.contains(word)) return not_held("uniqueItems", path, concat(" beside '", word, "'"));
  json::value part;
  json::array values;
  if (items != nullptr && !items->is_array()) {
    Result<json::value> flat = flatten_schema(*items, finder());
    if (flat && flat->is_object()) {
      drop_annotations(flat->as_object());
      const json::value* type = flat->as_object().if_contains("type");
      if (flat->as_object().contains("enum") || flat->as_object().contains("const")) {
        PAGODA_RETURN_IF_ERROR(enumerated(flat->as_object(), path));
        values = flat->as_object().at("enum").as_array();
      } else if (flat->as_object().size() == 1 && type != nullptr && (*type == "boolean" || *type == "null")) {
        values = *type == "null" ? json::array{nullptr} : json::array{false, true};
      }
    }
  }
  if (values.empty()) return not_held("uniqueItems", path, " of items that are not listed");
  json::array different;
  for (const json::value& value : values)
    if (std::ranges::find(different, value) == different.end()) different.push_back(value);
  json::object counts;
  PAGODA_RETURN_IF_ERROR(count(object, "minItems", path, counts, 0));
  PAGODA_RETURN_IF_ERROR(count(object, "maxItems", path, counts, 0));
  const auto bound = [&](const char* name, std::size_t otherwise) {
    return counts.contains(name) ? static_cast<std::size_t>(counts.at(name).as_int64()) : otherwise;
  };
  const std::size_t least = bound("minItems", 0), most = std::min(bound("maxItems", different.size()), different.size());
  // All lists in all orders while they are few, then in the order of the values alone.
  json::array lists;
  for (const bool ordered : {false, true}) {
    std::vector<std::vector<std::size_t>> open = {{}};
    lists.clear();
    bool whole = true;
    for (std::size_t length = 0; length <= most && whole; ++length) {
      if (length >= least)
        for (const auto& one : open) {
          json::array list;
          for (const std::size_t i : one) list.push_back(different[i]);
          lists.push_back(std::move(list));
        }
      std::vector<std::vector<std::size_t>> longer;
      for (const auto& one : open)
        for (std::size_t i = ordered && !one.empty() ? one.back() + 1 : 0; i < different.size(); ++i)
          if (std::ranges::find(one, i) == one.end()) {
            longer.push_back(one);
            longer.back().push_back(i);
          }
      whole = lists.size() + longer.size() <= kMostLists;
      open = std::move(longer);
    }
    if (whole && !lists.empty()) break;
    if (ordered) return not_held("uniqueItems", path, " of so many items");
  }
  states_ += static_cast<std::int64_t>(json::serialize(lists).size());
  out = {{"enum", std::move(lists)}};
  return ok_status();
}

Status SchemaPreparer::object_case(const json::object& object, const std::string& path, std::size_t depth,
                                   json::object& out) {
  PAGODA_RETURN_IF_ERROR(count(object, "minProperties", path, out, 2));
  PAGODA_RETURN_IF_ERROR(count(object, "maxProperties", path, out, 2));
  const json::value* additional = object.if_contains("additionalProperties");
  if (additional == nullptr) additional = object.if_contains("unevaluatedProperties");
  const json::value* patterns = object.if_contains("patternProperties");
  const json::value* names = object.if_contains("propertyNames");
  json::object properties;
  std::set<std::string> never;
  if (const json::value* given = object.if_contains("properties")) {
    if (!given->is_object()) return refuse(path, "has 'properties' that are no object");
    for (const auto& entry : given->as_object()) {
      const std::string_view name(entry.key().data(), entry.key().size());
      if (entry.value().is_bool() && !entry.value().as_bool()) {
        never.emplace(name);
        continue;
      }
      json::value part;
      const Status status = prepare(entry.value(), at(path, concat("properties/", name)), depth + 1, part);
      if (!status.ok() && status.reason() == kNoAnswer) {
        never.emplace(name);
        continue;
      }
      PAGODA_RETURN_IF_ERROR(status);
      properties[name] = std::move(part);
      states_ += static_cast<std::int64_t>(name.size());
    }
  }
  json::array required;
  if (const json::value* given = object.if_contains("required")) {
    if (!given->is_array()) return refuse(path, "has a 'required' that is no list");
    for (const json::value& name : given->as_array()) {
      if (!name.is_string()) return refuse(path, "has a 'required' that is no list of names");
      if (std::ranges::find(required, name) != required.end()) continue;
      required.push_back(name);
      if (properties.contains(name.as_string())) continue;
      const bool free = additional == nullptr || !additional->is_bool() || additional->as_bool();
      if (!free || never.contains(std::string(name.as_string())))
        return refuse(path,
                      concat("requires '", std::string_view(name.as_string()), "' and does not allow it"))
            .with_reason(std::string(kNoAnswer));
      if (patterns != nullptr) return not_held("patternProperties", path, " beside 'required'");
      json::value part;
      PAGODA_RETURN_IF_ERROR(prepare(additional == nullptr ? json::value(true) : *additional,
                                     at(path, "additionalProperties"), depth + 1, part));
      properties[name.as_string()] = std::move(part);
    }
  }
  const auto optional =
      static_cast<std::int64_t>(properties.size() - std::min(properties.size(), required.size()));
  if ((pairs_ += optional * optional) > kMaxOptionalPairs)
    return refuse(path, "has too many optional properties");
  const bool declared = !properties.empty();
  const bool free = additional != nullptr && !(additional->is_bool() && !additional->as_bool());
  // Undeclared names could be written that are declared, or match a pattern, and so have to satisfy both.
  if (patterns != nullptr && (declared || free || names != nullptr || !never.empty()))
    return not_held("patternProperties", path, declared ? " beside 'properties'" : " beside others");
  if (names != nullptr && (declared || !never.empty()))
    return not_held("propertyNames", path, " beside 'properties'");
  if (free && !never.empty())
    return not_held("additionalProperties", path, " beside a property that is false");
  if (declared) out["properties"] = std::move(properties);
  if (!required.empty()) out["required"] = std::move(required);
  if (patterns != nullptr) {
    if (!patterns->is_object() || patterns->as_object().size() != 1)
      return not_held("patternProperties", path, " of more than one");
    const auto& [pattern, schema] = *patterns->as_object().begin();
    const std::string ascii = printable_pattern(std::string_view(pattern));
    if (ascii.empty() || (holds_pattern_ != nullptr && !holds_pattern_(ascii)))
      return not_held("patternProperties", path, concat(" '", std::string_view(pattern).substr(0, 100), "'"));
    json::value part;
    PAGODA_RETURN_IF_ERROR(prepare(schema, at(path, "patternProperties"), depth + 1, part));
    out["patternProperties"] = json::object{{ascii, part}};
  }
  if (names != nullptr) {
    json::value part;
    PAGODA_RETURN_IF_ERROR(prepare(*names, at(path, "propertyNames"), depth + 1, part));
    if (!of_strings(part.as_object())) return not_held("propertyNames", path, " without a string's keywords");
    out["propertyNames"] = std::move(part);
  }
  // Nothing said: whatever object. Else what is not declared is left out, which is allowed to.
  const json::value any(true);
  const bool anything = !declared && patterns == nullptr && never.empty() && additional == nullptr;
  if (anything || free) {
    json::value part;
    PAGODA_RETURN_IF_ERROR(
        prepare(anything ? any : *additional, at(path, "additionalProperties"), depth + 1, part));
    out["additionalProperties"] = std::move(part);
    if (out.contains("minProperties") && out.at("minProperties").as_int64() > 1)
      return not_held("minProperties", path, " of undeclared ones");  // a name may be written twice
  } else if (names == nullptr) {
    out["additionalProperties"] = false;
  }
  return ok_status();
}

}  // namespace pagoda
