#include "cli/flags/speculative_flag.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/strings.h"
#include "cli/flags/flag_members.h"

namespace pagoda {
namespace {

constexpr std::int32_t kLookupByDefault = 5;  // vLLM's, for both ends

}  // namespace

Result<SpeculativeConfig> parse_speculative_config(const std::string& json) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(json, error);
  if (error || !parsed.is_object())
    return invalid_argument(R"(must be a JSON object such as {"method":"ngram","num_speculative_tokens":5})");
  SpeculativeConfig config;
  bool is_ngram = false;
  struct Number {
    const char* name;
    std::int32_t* value;
    bool given = false;
  };
  Number numbers[] = {{"num_speculative_tokens", &config.num_speculative_tokens},
                      {"prompt_lookup_max", &config.prompt_lookup_max},
                      {"prompt_lookup_min", &config.prompt_lookup_min},
                      {"disable_by_batch_size", &config.disable_by_batch_size}};
  for (const auto& member : parsed.as_object()) {
    const std::string name(member.key());
    const boost::json::value& value = member.value();
    if (value.is_null()) continue;  // as if it were not there
    if (name == "method") {
      is_ngram = value.is_string() && value.as_string() == "ngram";
      if (!is_ngram) return refuse_member("method", "must be \"ngram\": draft models are not supported");
      continue;
    }
    const auto number = std::ranges::find_if(numbers, [&](const Number& n) { return name == n.name; });
    if (number == std::end(numbers)) return refuse_member(name, "is not a field of method \"ngram\"");
    *number->value = value.to_number<std::int32_t>(error);
    if (error || value.is_double()) return refuse_member(number->name, "must be a whole number");
    number->given = true;
  }
  if (!is_ngram) return refuse_member("method", "is missing: only \"ngram\" is supported");
  if (!numbers[0].given) return refuse_member("num_speculative_tokens", "is missing");
  const bool max_given = numbers[1].given, min_given = numbers[2].given;
  if (!max_given && !min_given) config.prompt_lookup_max = config.prompt_lookup_min = kLookupByDefault;
  if (max_given && !min_given) config.prompt_lookup_min = config.prompt_lookup_max;
  if (min_given && !max_given) config.prompt_lookup_max = config.prompt_lookup_min;
  PAGODA_RETURN_IF_ERROR(validate(config));
  return config;
}

}  // namespace pagoda
