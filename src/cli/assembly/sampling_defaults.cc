#include "cli/assembly/sampling_defaults.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/strings.h"
#include "loader/json_overrides.h"

namespace pagoda {
namespace {

constexpr std::array<std::string_view, 5> kFields = {"temperature", "top_p", "top_k", "min_p",
                                                     "repetition_penalty"};

Status check_overrides(std::string_view overrides) {
  boost::system::error_code error;
  const boost::json::value given = boost::json::parse(overrides, error);
  if (error || !given.is_object())
    return invalid_argument("--override-generation-config is not a JSON object");
  for (const auto& [key, value] : given.get_object()) {
    if (std::ranges::find(kFields, std::string_view(key)) == kFields.end())
      return invalid_argument(concat("--override-generation-config: '", std::string_view(key),
                                     "' is not supported; supported: temperature, top_p, top_k, min_p, "
                                     "repetition_penalty"));
    if (!value.is_number() && !value.is_null())
      return invalid_argument(
          concat("--override-generation-config: '", std::string_view(key), "' must be a number"));
  }
  return ok_status();
}

// The same fields in GGUF metadata, as llama.cpp's converter copies them and llama.cpp reads them.
std::string written_in(const GgufFile& file) {
  boost::json::object fields;
  for (const auto& [key, field] : {std::pair("temp", "temperature"),
                                   {"top_p", "top_p"},
                                   {"top_k", "top_k"},
                                   {"min_p", "min_p"},
                                   {"penalty_repeat", "repetition_penalty"}})
    if (const std::optional<double> value = file.number(concat("general.sampling.", key)))
      fields[field] = *value;
  return boost::json::serialize(fields);
}

}  // namespace

Result<SamplingDefaults> sampling_defaults(const ModelSource& source, std::string_view overrides) {
  SamplingDefaults defaults;
  std::string text = source.gguf() != nullptr ? written_in(*source.gguf())
                                              : source.side_file("generation_config.json").value_or("{}");
  boost::system::error_code error;
  if (boost::json::parse(text, error); error) text = "{}";  // it is for people's convenience
  if (!overrides.empty()) {
    PAGODA_RETURN_IF_ERROR(check_overrides(overrides));
    auto merged = with_overrides(text, overrides);
    if (!merged) return merged.error();
    text = *std::move(merged);
  }
  const boost::json::value config = boost::json::parse(text, error);
  if (error || !config.is_object()) return defaults;
  const auto number = [&](const char* key) -> std::optional<float> {
    const boost::json::value* value = config.as_object().if_contains(key);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    return value->to_number<float>();
  };
  defaults.temperature = number("temperature");
  defaults.top_p = number("top_p");
  defaults.min_p = number("min_p");
  defaults.repetition_penalty = number("repetition_penalty");
  // -2, and so all that is below it, is refused with the request that would use it.
  if (const auto top_k = number("top_k"))
    defaults.top_k = static_cast<std::int32_t>(std::clamp(*top_k, -2.0f, 1e9f));
  return defaults;
}

}  // namespace pagoda
