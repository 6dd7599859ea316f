#include "constraint/schema_check.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using Keywords = std::vector<std::string_view>;

constexpr std::size_t kMaxDepth = 64;
constexpr std::int64_t kMaxCount = 20'000;    // of one repetition
constexpr std::int64_t kMaxStates = 100'000;  // of all, as they are counted here
constexpr std::int64_t kMaxOptionalPairs =
    90'000;                                  // compiling is quadratic in an object's optional properties
constexpr std::int64_t kMaxMultiple = 1024;  // of XGrammar

// Keywords that say something about values of one kind. What is in no list is an annotation, as JSON Schema
// has it.
const Keywords kOfObjects = {
    "properties",        "required",         "additionalProperties", "patternProperties",
    "propertyNames",     "minProperties",    "maxProperties",        "unevaluatedProperties",
    "dependentRequired", "dependentSchemas", "dependencies"};
const Keywords kOfArrays = {"items",       "prefixItems",     "additionalItems", "minItems",
                            "maxItems",    "uniqueItems",     "contains",        "minContains",
                            "maxContains", "unevaluatedItems"};
const Keywords kOfStrings = {"minLength", "maxLength", "pattern", "format"};
const Keywords kOfNumbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
// About any value; the first of them that is there decides, and what stands beside it has to agree.
const Keywords kDeciding = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};
const Keywords kNeverHeld = {"not",
                             "if",
                             "then",
                             "else",
                             "dependentRequired",
                             "dependentSchemas",
                             "dependencies",
                             "contains",
                             "minContains",
                             "maxContains",
                             "$dynamicRef",
                             "$recursiveRef",
                             "propertyDependencies"};
// Formats that JSON Schema knows. Other names are annotations.
struct FormatPattern {
  std::string_view name;
  bool held = true;
  std::string_view pattern = {};  // where the compiler's own is not JSON in all cases
};
constexpr FormatPattern kFormats[] = {
    {"date"},
    {"time"},
    {"date-time"},
    {"duration"},
    {"ipv4"},
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

bool among(const Keywords& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

std::string_view type_of(const json::value& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_bool()) return "boolean";
  if (value.is_null()) return "null";
  if (value.is_double() && value.as_double() != std::floor(value.as_double())) return "number";
  return "integer";
}

class Preparer {
 public:
  Preparer(const json::value& root, HoldsPattern holds_pattern)
      : root_(root), holds_pattern_(holds_pattern) {}

  // The root, with all that is referred to as its definitions.
  Status prepare_all(json::value& out) {
    PAGODA_RETURN_IF_ERROR(prepare(root_, "#", 0, out));
    json::object definitions;
    while (!pending_.empty()) {
      const Definition next = pending_.back();
      pending_.pop_back();
      json::value part;
      PAGODA_RETURN_IF_ERROR(prepare(*next.schema, next.path, next.schema == &root_ ? 0 : 1, part));
      definitions[names_.at(next.path)] = std::move(part);
    }
    if (!definitions.empty()) out.as_object()["$defs"] = std::move(definitions);
    return ok_status();
  }

 private:
  Status prepare(const json::value& schema, const std::string& path, std::size_t depth, json::value& out) {
    if (depth > kMaxDepth) return refuse(path, "is nested more than 64 deep");
    if ((states_ += 8) > kMaxStates) return too_large(path);
    if (schema.is_bool()) {
      if (!schema.as_bool()) return refuse(path, "is false, which no answer can satisfy");
      out = json::object();
      return ok_status();
    }
    if (!schema.is_object()) return refuse(path, "must be an object or true");
    out = schema;
    json::object& object = out.as_object();
    if (depth > 0 && object.contains("$id")) return not_held("$id", path, " of its own");
    drop_annotations(object);
    for (const std::string_view keyword : kNeverHeld)
      if (object.contains(keyword)) return not_held(keyword, path);
    for (const std::string_view keyword : kDeciding)
      if (object.contains(keyword)) return decided(keyword, object, path, depth);
    return typed(object, path, depth);
  }

  static std::string at(const std::string& path, std::string_view key) { return concat(path, "/", key); }
  static Status refuse(const std::string& path, std::string_view problem) {
    return invalid_argument(concat("the schema at '", path, "' ", problem));
  }
  static Status not_held(std::string_view keyword, const std::string& path, std::string_view why = "") {
    return refuse(path, concat("has '", keyword, "'", why, ", which is not supported"));
  }
  static Status too_large(const std::string& path) {
    return refuse(path, "makes a grammar that is too large");
  }

  // Names and comments take part in nothing, and what is recursive in them is nobody's.
  static void drop_annotations(json::object& object) {
    for (const std::string_view name :
         {"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
          "$comment", "$schema", "$id", "discriminator"})
      object.erase(name);
  }

  // $ref, const, enum, anyOf, oneOf, allOf: the compiler reads this keyword alone.
  Status decided(std::string_view keyword, json::object& object, const std::string& path, std::size_t depth) {
    json::value value = object.at(keyword);
    const std::optional<json::value> type =
        object.contains("type") ? std::optional(object.at("type")) : std::nullopt;
    const bool checks_type = keyword == "const" || keyword == "enum";
    for (const auto& entry : object) {
      const std::string_view other(entry.key().data(), entry.key().size());
      if (other == keyword || (other == "type" && checks_type) || other == "$defs" || other == "definitions")
        continue;
      const bool says_something = other == "type" || among(kDeciding, other) || among(kOfObjects, other) ||
                                  among(kOfArrays, other) || among(kOfStrings, other) ||
                                  among(kOfNumbers, other);
      if (says_something) return not_held(other, path, concat(" beside '", keyword, "'"));
    }
    json::object kept;
    if (checks_type) {
      if (keyword == "const") value = json::array{value};
      if (!value.is_array() || value.as_array().empty())
        return refuse(path, "has an 'enum' that is no list, or empty");
      json::array fit;
      for (const json::value& entry : value.as_array())
        if (!type || fits(entry, *type)) fit.push_back(entry);
      if (fit.empty()) return refuse(path, concat("has no value in '", keyword, "' of its 'type'"));
      states_ += static_cast<std::int64_t>(json::serialize(fit).size());
      kept["enum"] = std::move(fit);
    } else if (keyword == "$ref") {
      Result<std::string> name = follow(value, path);
      if (!name) return name.error();
      kept["$ref"] = concat("#/$defs/", *name);
    } else {
      if (!value.is_array() || value.as_array().empty())
        return refuse(path, concat("has a '", keyword, "' that is no list, or empty"));
      json::array parts;
      for (std::size_t i = 0; i < value.as_array().size(); ++i) {
        json::value part;
        const json::value& option = value.as_array()[i];
        if (keyword != "allOf" && option.is_bool() && !option.as_bool()) continue;  // nobody's case
        PAGODA_RETURN_IF_ERROR(prepare(option, at(path, concat(keyword, "/", i)), depth + 1, part));
        parts.push_back(std::move(part));
      }
      if (parts.empty()) return refuse(path, concat("has no '", keyword, "' that an answer can satisfy"));
      if (keyword == "allOf" && parts.size() > 1) return not_held("allOf", path, " of more than one");
      kept[keyword] = std::move(parts);
    }
    object = std::move(kept);
    return states_ > kMaxStates ? too_large(path) : ok_status();
  }

  static bool fits(const json::value& value, const json::value& type) {
    if (const json::array* types = type.if_array())
      return std::ranges::any_of(*types, [&](const json::value& one) { return fits(value, one); });
    if (!type.is_string()) return false;
    const std::string_view name(type.as_string());
    return name == type_of(value) || (name == "number" && type_of(value) == "integer");
  }

  // The name of the definition that a reference leads to. It is prepared later, once.
  Result<std::string> follow(const json::value& reference, const std::string& path) {
    std::set<std::string> chain;
    const json::value* uri = &reference;
    while (true) {
      if (!uri->is_string()) return refuse(path, "has a '$ref' that is no string");
      const std::string target(uri->as_string());
      if (!chain.insert(target).second) return refuse(path, "has a '$ref' that leads back to itself");
      const json::value* found = find(target);
      if (found == nullptr) return not_held("$ref", path, concat(" to '", target.substr(0, 100), "'"));
      if (const json::object* next = found->if_object(); next != nullptr && next->contains("$ref")) {
        uri = &next->at("$ref");
        continue;
      }
      const auto [known, fresh] = names_.try_emplace(target, concat("r", names_.size()));
      if (fresh) pending_.push_back({target, found});
      return known->second;
    }
  }

  // A part of this schema, by names alone; null: none.
  const json::value* find(const std::string& target) const {
    if (target == "#") return &root_;
    if (!target.starts_with("#/") || target.find_first_of("~%") != std::string::npos) return nullptr;
    const json::value* found = &root_;
    for (std::size_t begin = 2; begin <= target.size() && found != nullptr;) {
      const std::size_t end = std::min(target.find('/', begin), target.size());
      const json::object* object = found->if_object();
      found = object == nullptr ? nullptr : object->if_contains(target.substr(begin, end - begin));
      begin = end + 1;
    }
    return found;
  }

  // By `type`, or by the keywords that are there.
  Status typed(json::object& object, const std::string& path, std::size_t depth) {
    std::vector<std::string> types;
    if (const json::value* type = object.if_contains("type")) {
      const json::array one = type->is_array() ? type->as_array() : json::array{*type};
      for (const json::value& entry : one) {
        if (!entry.is_string())
          return refuse(path, "has a 'type' that is neither a name nor a list of names");
        types.emplace_back(entry.as_string());
      }
      if (types.empty()) return refuse(path, "has an empty 'type'");
    } else {
      const auto has_one = [&](const Keywords& words) {
        return std::ranges::any_of(words, [&](std::string_view word) { return object.contains(word); });
      };
      if (has_one(kOfObjects))
        types.emplace_back("object");
      else if (has_one(kOfArrays))
        types.emplace_back("array");
      else if (has_one(kOfStrings))
        types.emplace_back("string");
      else if (has_one(kOfNumbers))
        types.emplace_back("number");
    }
    json::array cases;
    for (const std::string& type : types) {
      json::object one = {{"type", type}};
      if (type == "object")
        PAGODA_RETURN_IF_ERROR(object_case(object, path, depth, one));
      else if (type == "array")
        PAGODA_RETURN_IF_ERROR(array_case(object, path, depth, one));
      else if (type == "string")
        PAGODA_RETURN_IF_ERROR(string_case(object, path, one));
      else if (type == "number" || type == "integer")
        PAGODA_RETURN_IF_ERROR(number_case(object, path, type, one));
      else if (type != "boolean" && type != "null")
        return refuse(path, concat("has the unknown type '", type.substr(0, 100), "'"));
      cases.push_back(std::move(one));
    }
    json::object out;
    if (cases.size() == 1) out = std::move(cases.front().as_object());
    if (cases.size() > 1) out["anyOf"] = std::move(cases);
    object = std::move(out);
    return states_ > kMaxStates ? too_large(path) : ok_status();
  }

  // Whether a prepared schema is one of strings alone.
  static bool of_strings(const json::object& schema) {
    if (const json::value* type = schema.if_contains("type")) return *type == "string";
    const json::value* list = schema.if_contains("enum");
    return list != nullptr &&
           std::ranges::all_of(list->as_array(), [](const json::value& v) { return v.is_string(); });
  }

  // A whole number of things in [0, kMaxCount]; counted as states where something is written that often.
  Status count(const json::object& object, std::string_view keyword, const std::string& path,
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

  Status string_case(const json::object& object, const std::string& path, json::object& out) {
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
    for (const std::string_view keyword : {"minLength", "maxLength"})
      if (lengths.contains(keyword) && (pattern != nullptr || by_format))
        return not_held(keyword, path, pattern != nullptr ? " beside 'pattern'" : " beside 'format'");
    if (lengths.empty()) return ok_status();
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
    out["pattern"] =
        concat("^[^\"\\\\\\x00-\\x1f]{", lengths.contains("minLength") ? bound("minLength") : "0", ",",
               bound("maxLength"), "}$");
    return ok_status();
  }

  // With everything but printable ASCII written as an escape; empty: that cannot be.
  static std::string printable_pattern(std::string_view pattern) {
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

  Status number_case(const json::object& object, const std::string& path, std::string_view type,
                     json::object& out) {
    for (const std::string_view keyword : kOfNumbers) {
      const json::value* value = object.if_contains(keyword);
      if (value == nullptr) continue;
      if (value->is_bool()) return not_held(keyword, path, " as draft 4 has it");
      if (!value->is_number()) return refuse(path, concat("has a '", keyword, "' that is no number"));
      const double number = value->to_number<double>();
      if (keyword == "multipleOf") {
        if (number == 1 && type == "integer") continue;
        if (type != "integer" || number != std::floor(number) || number < 1 || number > kMaxMultiple)
          return not_held(keyword, path, concat(" of ", type));
        out[keyword] = static_cast<std::int64_t>(number);
        states_ += static_cast<std::int64_t>(number);
        continue;
      }
      if (std::abs(number) > 9e15)
        return refuse(path, concat("has a '", keyword, "' of more than 15 digits"));
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
    if (out.contains("multipleOf") && (out.contains("minimum") || out.contains("maximum")))
      return not_held("multipleOf", path, " beside bounds");
    return ok_status();
  }

  Status array_case(const json::object& object, const std::string& path, std::size_t depth,
                    json::object& out) {
    if (const json::value* unique = object.if_contains("uniqueItems"); unique != nullptr && *unique != false)
      return not_held("uniqueItems", path);
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
        PAGODA_RETURN_IF_ERROR(
            prepare(entry, at(path, concat("prefixItems/", parts.size())), depth + 1, part));
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
      PAGODA_RETURN_IF_ERROR(prepare(*items, at(path, "items"), depth + 1, out["items"]));
    }
    // All of a prefix is written: a shorter list cannot be asked for.
    if (out.contains("maxItems") && out.at("maxItems").as_int64() < static_cast<std::int64_t>(length))
      return not_held("maxItems", path, " below the length of 'prefixItems'");
    return ok_status();
  }

  Status object_case(const json::object& object, const std::string& path, std::size_t depth,
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
        PAGODA_RETURN_IF_ERROR(
            prepare(entry.value(), at(path, concat("properties/", name)), depth + 1, part));
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
                        concat("requires '", std::string_view(name.as_string()), "' and does not allow it"));
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
        return not_held("patternProperties", path,
                        concat(" '", std::string_view(pattern).substr(0, 100), "'"));
      json::value part;
      PAGODA_RETURN_IF_ERROR(prepare(schema, at(path, "patternProperties"), depth + 1, part));
      out["patternProperties"] = json::object{{ascii, part}};
    }
    if (names != nullptr) {
      json::value part;
      PAGODA_RETURN_IF_ERROR(prepare(*names, at(path, "propertyNames"), depth + 1, part));
      if (!of_strings(part.as_object()))
        return not_held("propertyNames", path, " without a string's keywords");
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

  const json::value& root_;
  const HoldsPattern holds_pattern_;
  std::int64_t states_ = 0, pairs_ = 0;
  struct Definition {
    std::string path;
    const json::value* schema;
  };
  std::vector<Definition> pending_;
  std::map<std::string, std::string> names_;  // of definitions, by their path
};

}  // namespace

Result<json::value> prepare_schema(const json::value& schema, HoldsPattern holds_pattern) {
  Preparer preparer(schema, holds_pattern);
  json::value out;
  if (Status status = preparer.prepare_all(out); !status.ok()) return status;
  return out;
}

}  // namespace pagoda
