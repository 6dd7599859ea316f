#include "api/field_recorder.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <vector>

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::string_view kItem = "[]";

// A place in the body: the schemas of its value, and the places inside it.
struct Place {
  std::vector<json::object> schemas;
  std::map<std::string, Place, std::less<>> inside;
};

bool is_index(std::string_view part) {
  return !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

// True if `schema` gives only a type, and `other` the same type with more detail.
bool is_general(const json::object& schema, const json::object& other) {
  return schema.size() == 1 && other.size() > 1 && schema.contains("type") && other.contains("type") &&
         schema.at("type") == other.at("type");
}

bool is_kind(const json::object& schema, std::string_view kind) {
  const json::value* type = schema.if_contains("type");
  return type != nullptr && type->is_string() && std::string_view(type->as_string()) == kind;
}

json::object schema_of(const Place& place) {
  std::vector<json::object> kinds;
  bool any = false;
  for (const json::object& schema : place.schemas) {
    any = any || schema.empty();
    // The places inside imply that the value is a list or an object.
    const bool described_inside =
        !place.inside.empty() && (is_kind(schema, "object") || is_kind(schema, "array"));
    const bool described_elsewhere = std::ranges::any_of(
        place.schemas, [&](const json::object& other) { return is_general(schema, other); });
    if (!described_inside && !described_elsewhere && !schema.empty() &&
        std::ranges::find(kinds, schema) == kinds.end())
      kinds.push_back(schema);
  }
  if (const auto item = place.inside.find(kItem); item != place.inside.end()) {
    // Numbers may also be keys of an object (logit_bias).
    const auto read_as = [&](std::string_view kind) {
      return std::ranges::any_of(place.schemas,
                                 [&](const json::object& schema) { return is_kind(schema, kind); });
    };
    if (read_as("object") && !read_as("array"))
      kinds.push_back({{"type", "object"}, {"additionalProperties", schema_of(item->second)}});
    else
      kinds.push_back({{"type", "array"}, {"items", schema_of(item->second)}});
  }
  json::object properties;
  for (const auto& [name, one] : place.inside)
    if (name != kItem) properties[name] = schema_of(one);
  if (!properties.empty()) kinds.push_back({{"type", "object"}, {"properties", std::move(properties)}});
  // A field read as any value may have a type that no sample shows.
  if (kinds.empty() || any) return {};
  if (kinds.size() == 1) return kinds.front();
  json::array each;
  for (json::object& kind : kinds) {
    if (json::value* several = kind.if_contains("anyOf"); several != nullptr && kind.size() == 1) {
      for (json::value& one : several->as_array()) each.push_back(std::move(one));
    } else {
      each.push_back(std::move(kind));
    }
  }
  return {{"anyOf", std::move(each)}};
}

}  // namespace

thread_local FieldRecorder* FieldRecorder::current_ = nullptr;

void FieldRecorder::note(const std::string& path, json::object schema) {
  fields_[path].push_back(std::move(schema));
}

json::object FieldRecorder::schema() const {
  Place body;
  for (const auto& [path, schemas] : fields_) {
    Place* place = &body;
    for (std::size_t at = 0; at <= path.size();) {
      const std::size_t dot = std::min(path.find('.', at), path.size());
      const std::string part = path.substr(at, dot - at);
      place = &place->inside[is_index(part) ? std::string(kItem) : part];
      at = dot + 1;
    }
    place->schemas.insert(place->schemas.end(), schemas.begin(), schemas.end());
  }
  json::object out = schema_of(body);
  return out.empty() ? json::object{{"type", "object"}} : out;
}

}  // namespace pagoda
