#include "loader/json_overrides.h"

#include "base/assign_or_return.h"
#include "loader/json_object.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Recursion is as deep as `more`, which the parser limits.
void merge(json::object& into, const json::object& more) {
  for (const auto& [key, value] : more) {
    json::value* old = into.if_contains(key);
    if (value.is_null())
      into.erase(key);
    else if (old != nullptr && old->is_object() && value.is_object())
      merge(old->get_object(), value.get_object());
    else
      into[key] = value;
  }
}

}  // namespace

Result<std::string> with_overrides(std::string_view text, std::string_view overrides) {
  if (overrides.empty()) return std::string(text);
  const Result<json::object> more = parse_json_object(overrides, "what is given instead");
  if (!more) return invalid_argument(more.error().message());
  PAGODA_ASSIGN_OR_RETURN(json::object whole, parse_json_object(text, "the file that is overridden"));
  merge(whole, *more);
  return json::serialize(whole);
}

Result<std::string> with_rope(std::string_view text, std::string_view rope) {
  if (rope.empty()) return std::string(text);
  PAGODA_ASSIGN_OR_RETURN(const json::object fields, parse_json_object(rope, "the scaling of the rotation"));
  PAGODA_ASSIGN_OR_RETURN(json::object whole, parse_json_object(text, "config.json"));
  json::object* const inner = language_part(whole);
  json::object& config = inner != nullptr ? *inner : whole;
  // Done before taking the pointers below, since a new entry moves the others.
  if (const json::value* const theta = fields.if_contains("rope_theta")) config["rope_theta"] = *theta;
  const auto object = [](json::object& from, std::string_view name) -> json::object* {
    json::value* const value = from.if_contains(name);
    return value != nullptr && value->is_object() && !value->get_object().empty() ? &value->get_object()
                                                                                  : nullptr;
  };
  json::object* target = object(config, "rope_scaling");
  if (target == nullptr) target = object(config, "rope_parameters");
  if (target != nullptr)
    if (json::object* const full = object(*target, "full_attention")) target = full;
  if (target == nullptr && fields.size() == 1 && fields.contains("rope_theta")) return json::serialize(whole);
  if (target == nullptr) target = &(config["rope_scaling"] = json::object()).get_object();
  merge(*target, fields);
  if (fields.contains("factor") && !fields.contains("rope_type")) {
    const json::value* const type =
        target->contains("rope_type") ? target->if_contains("rope_type") : target->if_contains("type");
    if (type == nullptr || *type != "yarn") (*target)["rope_type"] = "linear";
  }
  return json::serialize(whole);
}

std::string rope_theta_of(std::string_view overrides) {
  Result<json::object> parsed = parse_json_object(overrides, "");
  if (!parsed) return {};
  const json::object* const inner = language_part(*parsed);
  const json::object& fields = inner != nullptr ? *inner : *parsed;
  const json::value* const theta = fields.if_contains("rope_theta");
  if (theta == nullptr || !theta->is_number()) return {};
  for (const char* const beside : {"rope_scaling", "rope_parameters"})
    if (fields.contains(beside)) return {};
  return json::serialize(json::object{{"rope_theta", *theta}});
}

std::string without_pooling_keys(std::string_view overrides) {
  Result<json::object> parsed = parse_json_object(overrides, "");
  if (!parsed) return std::string(overrides);
  json::object& object = *parsed;
  if (object.contains("classifier_from_token")) object.erase("architectures");
  object.erase("classifier_from_token");
  object.erase("is_original_qwen3_reranker");
  return object.empty() ? std::string() : json::serialize(object);
}

}  // namespace pagoda
