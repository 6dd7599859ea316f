#include "cli/flags/speculative_flag.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/strings.h"
#include "cli/flags/flag_members.h"

namespace pagoda {
namespace {

constexpr std::int32_t kLookupByDefault = 5;  // vLLM's default for both limits

struct Number {
  const char* name;
  std::int32_t* value;
  bool given = false;
};

Status read_nonempty(std::string_view name, const boost::json::value& value, std::string& out) {
  if (!value.is_string() || value.as_string().empty()) return refuse_member(name, "must be a string");
  out = value.as_string();
  return ok_status();
}

// Determines the method from `method` and `model`; without `method`, the model implies it.
Status choose_method(const std::string& method, SpeculativeConfig& config) {
  const bool names_ngram = config.model == "ngram" || config.model == "[ngram]";  // vLLM's older form
  if (method == "ngram" || (method.empty() && names_ngram)) {
    if (!config.model.empty() && !names_ngram)
      return refuse_member("model", "is not a field of method \"ngram\"");
    config.model.clear();
    return ok_status();
  }
  if (method.empty() && config.model.empty())
    return refuse_member("method", "is missing: \"ngram\", or \"draft_model\" with a \"model\"");
  if (!method.empty() && method != "draft_model")
    return refuse_member("method", R"(must be "ngram" or "draft_model")");
  config.method = DraftMethod::draft_model;
  return ok_status();
}

}  // namespace

Result<SpeculativeConfig> parse_speculative_config(const std::string& json) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(json, error);
  if (error || !parsed.is_object())
    return invalid_argument(R"(must be a JSON object such as {"method":"ngram","num_speculative_tokens":5})");
  SpeculativeConfig config;
  std::string method;
  std::int32_t draft_ranks = 1;
  Number numbers[] = {{"num_speculative_tokens", &config.num_speculative_tokens},
                      {"prompt_lookup_max", &config.prompt_lookup_max},
                      {"prompt_lookup_min", &config.prompt_lookup_min},
                      {"disable_by_batch_size", &config.disable_by_batch_size},
                      {"draft_tensor_parallel_size", &draft_ranks}};
  for (const auto& member : parsed.as_object()) {
    const std::string name(member.key());
    const boost::json::value& value = member.value();
    if (value.is_null()) continue;  // null counts as absent
    if (name == "method" || name == "model") {
      PAGODA_RETURN_IF_ERROR(read_nonempty(name, value, name == "method" ? method : config.model));
      continue;
    }
    const auto number = std::ranges::find_if(numbers, [&](const Number& n) { return name == n.name; });
    if (number == std::end(numbers)) return refuse_member(name, "is not a field of this method");
    *number->value = value.to_number<std::int32_t>(error);
    if (error || value.is_double()) return refuse_member(number->name, "must be a whole number");
    number->given = true;
  }
  PAGODA_RETURN_IF_ERROR(choose_method(method, config));
  if (!numbers[0].given) return refuse_member("num_speculative_tokens", "is missing");
  if (draft_ranks != 1) return refuse_member("draft_tensor_parallel_size", "must be 1");
  const bool max_given = numbers[1].given, min_given = numbers[2].given;
  if (config.method == DraftMethod::draft_model) {
    for (const Number& lookup : {numbers[1], numbers[2]})
      if (lookup.given) return refuse_member(lookup.name, "is not a field of method \"draft_model\"");
  } else {
    if (!max_given && !min_given) config.prompt_lookup_max = config.prompt_lookup_min = kLookupByDefault;
    if (max_given && !min_given) config.prompt_lookup_min = config.prompt_lookup_max;
    if (min_given && !max_given) config.prompt_lookup_max = config.prompt_lookup_min;
  }
  PAGODA_RETURN_IF_ERROR(validate(config));
  return config;
}

}  // namespace pagoda
