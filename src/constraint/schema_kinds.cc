// SchemaPreparer: constraints on strings and numbers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <set>
#include <string>

#include "constraint/number_patterns.h"
#include "constraint/pattern_lengths.h"
#include "constraint/pattern_sets.h"
#include "constraint/schema_preparer.h"
#include "constraint/string_formats.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMaxCount = 20'000;   // one repetition
constexpr std::int64_t kMaxMultiple = 1024;  // XGrammar's bound

// A pattern for strings of these lengths, of characters that need no escape in JSON.
std::string characters(const json::object& lengths) {
  const auto bound = [&](std::string_view keyword, std::string_view otherwise) {
    return lengths.contains(keyword) ? std::to_string(lengths.at(keyword).as_int64())
                                     : std::string(otherwise);
  };
  return concat("^[^\"\\\\\\x00-\\x1f]{", bound("minLength", "0"), ",", bound("maxLength", ""), "}$");
}

bool has_number(const json::object& bounds) {
  const auto bound = [&](std::string_view name, double otherwise) {
    return bounds.contains(name) ? bounds.at(name).to_number<double>() : otherwise;
  };
  const double least = bound("minimum", -HUGE_VAL), above = bound("exclusiveMinimum", -HUGE_VAL);
  const double most = bound("maximum", HUGE_VAL), below = bound("exclusiveMaximum", HUGE_VAL);
  const double from = std::max(least, above), to = std::min(most, below);
  return from < to || (from == to && above < from && below > to);
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
    return refuse(path, concat("has a '", keyword, "' that is not a whole number from 0"));
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
  if (lengths.contains("minLength") && lengths.contains("maxLength") &&
      lengths.at("minLength").as_int64() > lengths.at("maxLength").as_int64())
    return refuse(path, "has a 'minLength' above its 'maxLength'").with_reason(std::string(kNoAnswer));
  const json::value* pattern = object.if_contains("pattern");
  const json::value* format = object.if_contains("format");
  if (pattern != nullptr && !pattern->is_string())
    return refuse(path, "has a 'pattern' that is not a string");
  if (format != nullptr && !format->is_string()) return refuse(path, "has a 'format' that is not a string");
  if (pattern != nullptr ||
      (format != nullptr && string_format(std::string_view(format->as_string())) != nullptr))
    return pattern_case(object, lengths, path, out);
  if (lengths.empty()) return ok_status();
  if (lengths.contains("maxLength") && lengths.at("maxLength") == 0) {
    out = {{"enum", json::array{""}}};
    return ok_status();
  }
  out["pattern"] = characters(lengths);
  return ok_status();
}

Status SchemaPreparer::pattern_case(const json::object& object, const json::object& lengths,
                                    const std::string& path, json::object& out) {
  const json::value* pattern = object.if_contains("pattern");
  const json::value* format = object.if_contains("format");
  const StringFormat* const named =
      format == nullptr ? nullptr : string_format(std::string_view(format->as_string()));
  const std::string_view given =
      pattern == nullptr ? std::string_view() : std::string_view(pattern->as_string());
  const auto unheld = [&] { return not_held("pattern", path, concat(" '", given.substr(0, 100), "'")); };
  std::string plain = pattern == nullptr ? std::string(named->pattern) : printable_pattern(given);
  states_ += 4 * static_cast<std::int64_t>(plain.size());
  const std::optional<PatternSet> set = set_of_pattern(pattern == nullptr ? named->pattern : given);
  if (!set) return unheld();
  const bool several = !set->none.empty() || set->all.size() > 1;
  if (several)
    for (const std::vector<std::string>* list : {&set->all, &set->none})
      for (const std::string& one : *list)
        if (!held(one))
          return not_held(list == &set->all ? "pattern" : "not", path, concat(" '", one.substr(0, 100), "'"));
  if (!several && !held(plain)) return unheld();
  if (several && !held(plain))
    return refuse(path, "has several 'pattern's that no string can match")
        .with_reason(std::string(kNoAnswer));
  if (pattern != nullptr && named != nullptr) {
    PatternSet both = *set;
    both.all.emplace_back(named->plain.empty() ? named->pattern : named->plain);
    plain = both.pattern();
    if (!held(plain)) return not_held("pattern", path, " together with 'format'");
  }
  out["pattern"] = plain;
  if (lengths.empty()) return ok_status();
  // A single expression if possible, since an automaton of several expands repetitions.
  const auto length = [&](const char* keyword, std::int64_t otherwise) {
    return lengths.contains(keyword) ? lengths.at(keyword).as_int64() : otherwise;
  };
  const std::string_view single = pattern != nullptr     ? std::string_view(plain)
                                  : named->plain.empty() ? named->pattern
                                                         : named->plain;
  std::optional<std::string> measured =
      pattern_of_lengths(single, length("minLength", 0), length("maxLength", kMaxCount));
  if (!measured) {
    PatternSet both = *set;
    if (pattern != nullptr && named != nullptr)
      both.all.emplace_back(named->plain.empty() ? named->pattern : named->plain);
    both.all.push_back(characters(lengths));
    measured = both.pattern();
    if (patterns_.holds == nullptr || !held(*measured))
      return not_held(lengths.contains("maxLength") ? "maxLength" : "minLength", path,
                      pattern != nullptr ? " together with 'pattern'" : " together with 'format'");
  }
  out["pattern"] = *measured;
  return ok_status();
}

Status SchemaPreparer::number_case(const json::object& object, const std::string& path, std::string_view type,
                                   json::object& out) {
  int places = 0;
  for (const std::string_view keyword : kOfNumbers) {
    const json::value* value = object.if_contains(keyword);
    if (value == nullptr) continue;
    if (value->is_bool()) return not_held(keyword, path, " in the form of draft 4");
    if (!value->is_number()) return refuse(path, concat("has a '", keyword, "' that is not a number"));
    const double number = value->to_number<double>();
    if (keyword == "multipleOf") {
      if (type == "integer" && number > 0 && 1 / number == std::floor(1 / number)) continue;
      if (type == "number" && (number == 0.1 || number == 0.01)) {
        places = number == 0.1 ? 1 : 2;
        continue;
      }
      const double whole =
          number * 2 == std::floor(number * 2) && number != std::floor(number) ? number * 2 : number;
      if (whole != std::floor(whole) || whole < 1 || whole > kMaxMultiple)
        return not_held(keyword, path, concat(" of ", type));
      if (type == "number") out["type"] = "integer";  // whole multiples only
      out[keyword] = static_cast<std::int64_t>(whole);
      states_ += static_cast<std::int64_t>(number);
      continue;
    }
    constexpr double kFarthest = 9e15;  // larger magnitudes are not written
    const bool below = keyword == "minimum" || keyword == "exclusiveMinimum";
    if (below ? number > kFarthest : number < -kFarthest)
      return refuse(path, concat("has a '", keyword, "' of more than 15 digits"));
    if (std::abs(number) > kFarthest) {
      const std::string_view name = below ? "minimum" : "maximum";
      if (!out.contains(name)) out[name] = static_cast<std::int64_t>(below ? -kFarthest : kFarthest);
      continue;
    }
    if (type == "number") {
      out[keyword] = *value;
    } else {  // the nearest whole number within the bound
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
  if (!has_number(out))
    return refuse(path, "has bounds with no number between them, which no answer can satisfy")
        .with_reason(std::string(kNoAnswer));
  if (places > 0) {
    const auto bound = [&](const char* name) {
      return out.contains(name) ? std::optional(out.at(name).to_number<double>()) : std::nullopt;
    };
    if (out.contains("exclusiveMinimum") || out.contains("exclusiveMaximum"))
      return not_held("multipleOf", path, " together with exclusive bounds");
    const auto pattern = decimals(places, bound("minimum"), bound("maximum"));
    if (!pattern)
      return not_held("multipleOf", path, " together with bounds without an integer between them");
    out = {{"type", "string"}, {"pattern", concat(std::string(1, kNumberPattern), *pattern)}};
    return ok_status();
  }
  if (out.contains("multipleOf") && (out.contains("exclusiveMinimum") || out.contains("exclusiveMaximum")))
    return not_held("multipleOf", path, " together with exclusive bounds");
  if (!out.contains("multipleOf") || (!out.contains("minimum") && !out.contains("maximum")))
    return ok_status();
  const std::optional<json::array> values = multiples(out);
  if (!values) return not_held("multipleOf", path, " together with bounds that large");
  if (values->empty())
    return refuse(path, "has no multiple of 'multipleOf' within its bounds")
        .with_reason(std::string(kNoAnswer));
  states_ += static_cast<std::int64_t>(json::serialize(*values).size());
  out = {{"enum", *values}};
  return ok_status();
}

}  // namespace pagoda
