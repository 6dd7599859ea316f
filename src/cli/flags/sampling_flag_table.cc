// The flags of the sampling defaults for requests that set none.
#include <utility>

#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

constexpr std::int64_t kMaxTopK = 1'000'000'000;

Flag number(const char* name, std::optional<double>& variable, double high, const char* help,
            std::vector<std::string> aliases = {}) {
  double unset = 0;
  FlagValue value = flags::number(unset, 0, high);
  value.store = [&variable, high](const std::string& text) -> Status {
    double given = 0;
    PAGODA_RETURN_IF_ERROR(flags::number(given, 0, high).store(text));
    variable = given;
    return ok_status();
  };
  return {.name = name,
          .value = std::move(value),
          .help = help,
          .default_text = "the model's own",
          .aliases = std::move(aliases)};
}

}  // namespace

std::vector<Flag> sampling_flag_table(SamplingFlags& flags) {
  const auto store_top_k = [&flags](std::int64_t k) { flags.top_k = static_cast<std::int32_t>(k); };
  return {
      number("temperature", flags.temperature, 100, "sampling temperature; 0: greedy", {"--temp"}),
      {.name = "top-k",
       .value = flags::integer(-1, kMaxTopK, store_top_k),
       .help = "number of most likely tokens to sample from; 0 or -1: all",
       .default_text = "the model's own"},
      number("top-p", flags.top_p, 1, "cumulative probability of the tokens to sample from"),
      number("min-p", flags.min_p, 1, "minimum probability relative to the most likely token"),
      number("repetition-penalty", flags.repetition_penalty, 100,
             "penalty on tokens that occurred before; 1: none", {"--repeat-penalty"}),
  };
}

}  // namespace pagoda
