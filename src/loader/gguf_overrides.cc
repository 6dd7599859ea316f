#include "loader/gguf_overrides.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/gguf_names.h"
#include "loader/json_object.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

template <class T>
bool parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

Status override_one(GgufFile& file, std::string_view entry) {
  const std::size_t equals = entry.find('='), colon = entry.find(':', equals == entry.npos ? 0 : equals);
  if (equals == entry.npos || equals == 0 || colon == entry.npos)
    return invalid_argument(concat("'", printable(entry), "' is not KEY=TYPE:VALUE"));
  const std::string key(entry.substr(0, equals));
  const std::string_view type = entry.substr(equals + 1, colon - equals - 1), value = entry.substr(colon + 1);
  std::int64_t integer = 0;
  double number = 0;
  if (type == "int" && parse(value, integer))
    file.set(key, integer);
  else if (type == "float" && parse(value, number) && std::isfinite(number))
    file.set(key, number);
  else if (type == "bool" && (value == "true" || value == "false"))
    file.set(key, value == "true");
  else if (type == "str")
    file.set(key, std::string(value));
  else
    return invalid_argument(concat("'", printable(entry), "': ",
                                   type == "int" || type == "float" || type == "bool"
                                       ? concat("no value of type ", type)
                                       : std::string("the types are int, float, bool and str")));
  return ok_status();
}

// Fields of rope_scaling.
constexpr auto kRopeNames =
    std::to_array<GgufName>({{"rope_theta", "rope.freq_base", true},
                             {"factor", "rope.scaling.factor", true},
                             {"original_max_position_embeddings", "rope.scaling.original_context_length"},
                             {"attention_factor", "rope.scaling.yarn_attn_factor", true},
                             {"beta_fast", "rope.scaling.yarn_beta_fast", true},
                             {"beta_slow", "rope.scaling.yarn_beta_slow", true}});

Status override_field(GgufFile& file, const std::string& prefix, std::span<const GgufName> names,
                      std::string_view field, const json::value& value) {
  const auto name = std::ranges::find(names, field, &GgufName::field);
  if (name == names.end())
    return invalid_argument(
        concat("'", printable(field),
               "' of config.json has no counterpart in a GGUF file's metadata; --override-kv "
               "sets those by their own names"));
  boost::system::error_code error;
  const auto integer = value.is_number() ? value.to_number<std::int64_t>(error) : 0;
  if (!value.is_number() || (error && !name->fraction))
    return invalid_argument(concat("'", printable(field), "' must be a number"));
  file.set(prefix + std::string(name->key),
           error ? GgufValue(value.to_number<double>()) : GgufValue(integer));
  return ok_status();
}

Status override_scaling(GgufFile& file, const std::string& prefix, const json::value& value) {
  if (value.is_null()) return file.set(prefix + "rope.scaling.type", std::string("none")), ok_status();
  if (!value.is_object()) return invalid_argument("'rope_scaling' must be an object");
  for (const auto& [key, each] : value.get_object()) {
    const std::string_view name = key;
    if (name != "rope_type" && name != "type") {
      PAGODA_RETURN_IF_ERROR(override_field(file, prefix, kRopeNames, name, each));
      continue;
    }
    if (!each.is_string()) return invalid_argument(concat("'", name, "' must be a string"));
    const std::string_view type = each.get_string();
    file.set(prefix + "rope.scaling.type", std::string(type == "default" ? "none" : type));
  }
  return ok_status();
}

}  // namespace

Status override_metadata(GgufFile& file, std::string_view text) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    PAGODA_RETURN_IF_ERROR(override_one(file, text.substr(0, comma)));
    text.remove_prefix(comma == text.npos ? text.size() : comma + 1);
  }
  return ok_status();
}

Status override_as_config(GgufFile& file, std::string_view overrides) {
  if (overrides.empty()) return ok_status();
  const Result<json::object> given = parse_json_object(overrides, "what is given instead");
  if (!given) return invalid_argument(given.error().message());
  const std::string* architecture = file.string("general.architecture");
  if (architecture == nullptr) return ok_status();  // the reader reports the error
  const std::string prefix = *architecture + ".";
  for (const auto& [key, value] : *given) {
    const std::string_view name = key;
    PAGODA_RETURN_IF_ERROR(name == "rope_scaling" || name == "rope_parameters"
                               ? override_scaling(file, prefix, value)
                               : override_field(file, prefix, kGgufNames, name, value));
  }
  return ok_status();
}

Status override_rope(GgufFile& file, std::string_view rope) {
  if (rope.empty()) return ok_status();
  PAGODA_ASSIGN_OR_RETURN(json::object fields, parse_json_object(rope, "the scaling of the rotation"));
  if (fields.contains("factor") && !fields.contains("rope_type")) {
    const std::string* const architecture = file.string("general.architecture");
    const std::string* const type =
        architecture != nullptr ? file.string(*architecture + ".rope.scaling.type") : nullptr;
    if (type == nullptr || *type != "yarn") fields["rope_type"] = "linear";
  }
  return override_as_config(file, json::serialize(json::object{{"rope_scaling", std::move(fields)}}));
}

}  // namespace pagoda
