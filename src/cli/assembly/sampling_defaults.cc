#include "cli/assembly/sampling_defaults.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>

#include "base/log.h"
#include "base/strings.h"
#include "loader/json_object.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// The fields, with the bounds that requests have.
struct Field {
  std::string_view name;
  double least = 0, most = 0;
  bool above = false;  // `least` itself is none
  bool whole = false;
};
constexpr std::array<Field, 5> kFields = {{{"temperature", 0, 100},
                                           {"top_p", 0, 1, true},
                                           {"top_k", -1, 1e9, false, true},
                                           {"min_p", 0, 1},
                                           {"repetition_penalty", 0, 100, true}}};

// Why a value cannot be used; empty: it can.
std::string fault_of(const Field& field, const json::value& value) {
  if (!value.is_number()) return "is not a number";
  const auto number = value.to_number<double>();
  if (field.whole && number != std::trunc(number)) return "is not a whole number";
  if (field.above && number <= field.least) return concat("is not above ", field.least);
  if (number < field.least) return concat("is below ", field.least);
  return number > field.most ? concat("is above ", field.most) : "";
}

Status check_overrides(const json::object& overrides) {
  for (const auto& [key, value] : overrides) {
    const auto field = std::ranges::find(kFields, std::string_view(key), &Field::name);
    if (field == kFields.end())
      return invalid_argument(concat("--override-generation-config: '", std::string_view(key),
                                     "' is not supported; supported: temperature, top_p, top_k, min_p, "
                                     "repetition_penalty"));
    if (value.is_null()) continue;
    if (const std::string fault = fault_of(*field, value); !fault.empty())
      return invalid_argument(concat("--override-generation-config: '", field->name, "' ", fault));
  }
  return ok_status();
}

// The same fields in GGUF metadata, as llama.cpp's converter copies them and llama.cpp reads them.
json::object written_in(const GgufFile& file) {
  json::object fields;
  for (const auto& [key, field] : {std::pair("temp", "temperature"),
                                   {"top_p", "top_p"},
                                   {"top_k", "top_k"},
                                   {"min_p", "min_p"},
                                   {"penalty_repeat", "repetition_penalty"}})
    if (const std::optional<double> value = file.number(concat("general.sampling.", key)))
      fields[field] = *value;
  return fields;
}

// What the model's file says, without the fields that cannot be used: these are named once, here.
json::object usable(const json::object& file, std::string_view name) {
  json::object fields;
  for (const Field& field : kFields) {
    const json::value* value = file.if_contains(field.name);
    if (value == nullptr || value->is_null()) continue;
    if (const std::string fault = fault_of(field, *value); fault.empty())
      fields[field.name] = *value;
    else
      log_warning("start", concat(name, ": '", field.name, "' = ", printable(json::serialize(*value), 60),
                                  " ", fault, " and is left out"));
  }
  return fields;
}

}  // namespace

Result<SamplingDefaults> sampling_defaults(const ModelSource& source, std::string_view overrides) {
  json::object fields;
  if (source.gguf() != nullptr) {
    fields = usable(written_in(*source.gguf()), "general.sampling");
  } else if (const auto text = source.side_file("generation_config.json")) {
    // One that is malformed was refused with the model's config.
    if (const auto file = parse_json_object(*text, "generation_config.json"))
      fields = usable(*file, "generation_config.json");
  }
  if (!overrides.empty()) {
    boost::system::error_code error;
    const json::value given = json::parse(overrides, error);
    if (error || !given.is_object())
      return invalid_argument("--override-generation-config is not a JSON object");
    PAGODA_RETURN_IF_ERROR(check_overrides(given.get_object()));
    for (const auto& [key, value] : given.get_object()) fields[key] = value;
  }
  SamplingDefaults defaults;
  const auto number = [&](std::string_view key) -> std::optional<float> {
    const json::value* value = fields.if_contains(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    return static_cast<float>(value->to_number<double>());
  };
  defaults.temperature = number("temperature");
  defaults.top_p = number("top_p");
  defaults.min_p = number("min_p");
  defaults.repetition_penalty = number("repetition_penalty");
  if (const auto top_k = number("top_k")) defaults.top_k = static_cast<std::int32_t>(*top_k);
  return defaults;
}

}  // namespace pagoda
