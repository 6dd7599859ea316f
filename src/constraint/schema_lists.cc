// SchemaPreparer: constraints on lists.
#include <algorithm>
#include <optional>
#include <utility>

#include "constraint/schema_preparer.h"

namespace pagoda {

Status SchemaPreparer::array_case(const json::object& object, const std::string& path, std::size_t depth,
                                  json::object& out) {
  if (const json::value* unique = object.if_contains("uniqueItems"); unique != nullptr && *unique != false) {
    const json::value* most = object.if_contains("maxItems");
    const bool single = most != nullptr && most->is_number() && most->to_number<double>() < 2;
    if (!single) return unique_items(object, path, out);
  }
  PAGODA_RETURN_IF_ERROR(count(object, "minItems", path, out, 2));
  PAGODA_RETURN_IF_ERROR(count(object, "maxItems", path, out, 2));
  if (out.contains("minItems") && out.contains("maxItems") &&
      out.at("minItems").as_int64() > out.at("maxItems").as_int64())
    return refuse(path, "has a 'minItems' above its 'maxItems', which no answer can satisfy")
        .with_reason(std::string(kNoAnswer));
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
    if (!prefix->is_array()) return refuse(path, "has 'prefixItems' that is not a list");
    json::array parts;
    for (const json::value& entry : prefix->as_array()) {
      json::value part;
      const Status status = prepare(entry, at(path, concat("prefixItems/", parts.size())), depth + 1, part);
      if (!status.ok() && status.reason() == kNoAnswer) {  // lists end before this item
        if (out.contains("minItems") && std::cmp_greater(out.at("minItems").as_int64(), parts.size()))
          return status;
        if (!out.contains("maxItems") || std::cmp_greater(out.at("maxItems").as_int64(), parts.size()))
          out["maxItems"] = static_cast<std::int64_t>(parts.size());
        break;
      }
      PAGODA_RETURN_IF_ERROR(status);
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
    if (!status.ok() && status.reason() == kNoAnswer) {
      if (out.contains("minItems") && std::cmp_greater(out.at("minItems").as_int64(), length)) return status;
      out["items"] = false;
    } else {
      PAGODA_RETURN_IF_ERROR(status);
    }
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

std::optional<json::array> SchemaPreparer::listed(const json::value& schema, const std::string& path) {
  constexpr std::int64_t kMaxNumbers = 64;
  const Result<json::value> flat = flatten_schema(schema, context());
  if (!flat || !flat->is_object()) return std::nullopt;
  json::object object = flat->as_object();
  drop_annotations(object);
  if (object.contains("enum") || object.contains("const")) {
    if (!enumerated(object, path).ok()) return std::nullopt;
    json::array different;
    for (const json::value& value : object.at("enum").as_array())
      if (std::ranges::find(different, value) == different.end()) different.push_back(value);
    return different;
  }
  const json::value* type = object.if_contains("type");
  if (type == nullptr) return std::nullopt;
  if (*type == "integer" && object.size() == 3 && object.contains("minimum") && object.contains("maximum") &&
      object.at("minimum").is_int64() && object.at("maximum").is_int64()) {
    const std::int64_t least = object.at("minimum").as_int64(), most = object.at("maximum").as_int64();
    if (least < -1'000'000 || most > 1'000'000 || most - least >= kMaxNumbers) return std::nullopt;
    json::array numbers;
    for (std::int64_t number = least; number <= most; ++number) numbers.push_back(number);
    return numbers;
  }
  json::array values;
  for (const json::value& one : type->is_array() ? type->as_array() : json::array{*type}) {
    if (one != "boolean" && one != "null") return std::nullopt;
    if (one == "null") values.push_back(nullptr);
    if (one == "boolean") values.insert(values.end(), {false, true});
  }
  return object.size() == 1 ? std::optional(values) : std::nullopt;
}

Status SchemaPreparer::unique_items(const json::object& object, const std::string& path, json::object& out) {
  constexpr std::size_t kMaxLists = 1000;
  const json::value *items = object.if_contains("items"), *prefix = object.if_contains("prefixItems");
  if (items != nullptr && items->is_array()) {  // draft 7
    prefix = items;
    items = object.if_contains("additionalItems");
  }
  const std::size_t fixed = prefix != nullptr && prefix->is_array() ? prefix->as_array().size() : 0;
  if (fixed == 0 && (items == nullptr || object.contains("unevaluatedItems")))
    return not_held("uniqueItems", path, " for items that are not enumerable");
  std::vector<json::array> places;  // allowed values per position, and of all further positions
  for (std::size_t i = 0; i <= fixed; ++i) {
    const json::value* const schema = i < fixed ? &prefix->as_array()[i] : items;
    if (i == fixed && (schema == nullptr || *schema == false)) {
      places.emplace_back();  // no further items are allowed
      continue;
    }
    std::optional<json::array> values = listed(*schema, path);
    if (!values) return not_held("uniqueItems", path, " for items that are not enumerable");
    places.push_back(*std::move(values));
  }
  json::object counts;
  PAGODA_RETURN_IF_ERROR(count(object, "minItems", path, counts, 0));
  PAGODA_RETURN_IF_ERROR(count(object, "maxItems", path, counts, 0));
  const auto bound = [&](const char* name, std::size_t otherwise) {
    return counts.contains(name) ? static_cast<std::size_t>(counts.at(name).as_int64()) : otherwise;
  };
  const std::size_t longest = fixed + places.back().size();
  const std::size_t least = bound("minItems", 0), most = std::min(bound("maxItems", longest), longest);
  if (least > longest)
    return refuse(path, "has 'uniqueItems' of fewer values than 'minItems', which no answer can satisfy")
        .with_reason(std::string(kNoAnswer));
  // All lists in all orders if they are few; otherwise only in the order of the values.
  json::array lists;
  for (const bool ordered : {false, true}) {
    std::vector<std::vector<json::value>> open = {{}};
    lists.clear();
    bool whole = true;
    for (std::size_t length = 0; length <= most && whole; ++length) {
      if (length >= least)
        for (const auto& one : open) lists.push_back(json::array(one.begin(), one.end()));
      const json::array& next = places[std::min(length, fixed)];
      std::vector<std::vector<json::value>> longer;
      for (const auto& one : open) {
        std::size_t first = 0;
        if (ordered && length > fixed)
          first = static_cast<std::size_t>(std::ranges::find(next, one.back()) - next.begin()) + 1;
        for (std::size_t i = first; i < next.size() && longer.size() <= kMaxLists; ++i) {
          if (std::ranges::find(one, next[i]) != one.end()) continue;
          longer.push_back(one);
          longer.back().push_back(next[i]);
        }
      }
      whole = lists.size() + longer.size() <= kMaxLists;
      open = std::move(longer);
    }
    if (whole && !lists.empty()) break;
    if (whole)
      return refuse(path, "has 'uniqueItems' but not enough different values, which no answer can satisfy")
          .with_reason(std::string(kNoAnswer));
    if (ordered) return not_held("uniqueItems", path, " with that many items");
  }
  states_ += static_cast<std::int64_t>(json::serialize(lists).size());
  out = {{"enum", std::move(lists)}};
  return ok_status();
}

}  // namespace pagoda
