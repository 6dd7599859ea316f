#include "decoding/speculative_config.h"

#include <string_view>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::int32_t kMaxGuesses = 64, kMaxNgram = 1024;

Status refuse_field(std::string_view field, std::string_view problem) {
  return invalid_argument(concat("'", field, "' ", problem)).with_param(std::string(field));
}

}  // namespace

Status validate(const SpeculativeConfig& config) {
  if (config.num_speculative_tokens < 1 || config.num_speculative_tokens > kMaxGuesses)
    return refuse_field("num_speculative_tokens", concat("must be from 1 to ", kMaxGuesses));
  if (config.disable_by_batch_size < 0) return refuse_field("disable_by_batch_size", "must not be negative");
  if (config.method == DraftMethod::draft_model)
    return config.model.empty() ? refuse_field("model", "is missing") : ok_status();
  if (config.prompt_lookup_max < 1 || config.prompt_lookup_max > kMaxNgram)
    return refuse_field("prompt_lookup_max", concat("must be from 1 to ", kMaxNgram));
  if (config.prompt_lookup_min < 1 || config.prompt_lookup_min > config.prompt_lookup_max)
    return refuse_field("prompt_lookup_min", "must be from 1 to prompt_lookup_max");
  return ok_status();
}

}  // namespace pagoda
