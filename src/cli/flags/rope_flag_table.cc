// The flags that change a model's rotary embedding, named as in llama-server, and GGUF metadata.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>

#include "base/strings.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_values.h"

namespace pagoda {
namespace {

// Parses vLLM's form of --rope-scaling, as in config.json: {"rope_type": "yarn", "factor": 4.0, ...}.
Status store_scaling(const std::string& text, RopeFlags& rope) {
  boost::system::error_code error;
  const boost::json::value parsed = boost::json::parse(text, error);
  if (error || !parsed.is_object()) return invalid_argument(concat("'", text, "' is not a JSON object"));
  struct Field {
    std::string_view name;
    double* value;
  };
  const Field fields[] = {{"factor", &rope.scale},
                          {"rope_theta", &rope.freq_base},
                          {"attention_factor", &rope.yarn_scale},
                          {"beta_fast", &rope.yarn_beta_fast},
                          {"beta_slow", &rope.yarn_beta_slow}};
  for (const auto& [key, value] : parsed.get_object()) {
    const std::string name(key);
    const auto refuse = [&](std::string_view why) { return invalid_argument(concat("'", name, "' ", why)); };
    if (value.is_null()) continue;
    if (name == "type" || name == "rope_type") {
      if (value == "default")
        rope.scaling = "none";
      else if (value == "linear" || value == "yarn")
        rope.scaling = value.get_string();
      else
        return refuse("is not one of default, linear, yarn; see --hf-overrides");
      continue;
    }
    const auto field = std::ranges::find(fields, name, &Field::name);
    const bool context = name == "original_max_position_embeddings";
    if (!context && field == std::end(fields)) return refuse("is not known here; see --hf-overrides");
    const double number = value.is_number() ? value.to_number<double>() : 0;
    if (!(number > 0 && number <= 1e12)) return refuse("must be a positive number");
    if (!context)
      *field->value = number;
    else if (number > 1 << 30 || std::floor(number) != number)
      return refuse("must be a whole number");
    else
      rope.yarn_original = static_cast<std::int32_t>(number);
  }
  return ok_status();
}

}  // namespace

std::vector<Flag> rope_flag_table(EngineFlags& flags) {
  RopeFlags& rope = flags.rope;
  const auto number = [](const char* name, double& variable, double high, const char* help) {
    return Flag{.name = name,
                .value = flags::number(variable, 0, high),
                .help = help,
                .default_text = "the model's own"};
  };
  const FlagValue named = flags::choice(rope.scaling, {"none", "linear", "yarn"});
  const auto store_rope = [store = named.store, &rope](const std::string& value) {
    return value.starts_with('{') ? store_scaling(value, rope) : store(value);
  };
  const auto store_kv = [&flags](const std::string& value) {
    flags.override_kv += (flags.override_kv.empty() ? "" : ",") + value;
    return ok_status();
  };
  Flag base = number("rope-freq-base", rope.freq_base, 1e12, "RoPE base frequency (rope_theta)");
  base.aliases = {"--rope-theta"};
  return {
      {.name = "override-kv",
       .value = {.shape = FlagValue::Shape::repeated, .type = "KEY=TYPE:VALUE,...", .store = store_kv},
       .help = "GGUF metadata to override; TYPE is int, float, bool or str",
       .default_text = "none"},
      {.name = "rope-scaling",
       .value = flags::parsed("none|linear|yarn|JSON", store_rope),
       .help = "RoPE scaling method for longer contexts, or config.json's rope_scaling",
       .details = "RoPE scaling method for longer contexts, or all of it as config.json's `rope_scaling` has "
                  "it; without it, any of `--yarn-*` selects yarn, and "
                  "`--rope-scale` alone keeps the model's own yarn or else selects linear",
       .default_text = "the model's own"},
      number("rope-scale", rope.scale, 1e6, "RoPE scale: factor by which the context grows"),
      number("rope-freq-scale", rope.freq_scale, 1, "RoPE frequency scale: the inverse of --rope-scale"),
      base,
      {.name = "yarn-orig-ctx",
       .value = flags::int32(rope.yarn_original, 0),
       .help = "YaRN: context length that the model was trained with",
       .default_text = "the model's own"},
      number("yarn-attn-factor", rope.yarn_scale, 1e6,
             "YaRN: attention scale; derived from --rope-scale if that is given"),
      number("yarn-beta-fast", rope.yarn_beta_fast, 1e6,
             "YaRN: start of the ramp between interpolation and extrapolation"),
      number("yarn-beta-slow", rope.yarn_beta_slow, 1e6, "YaRN: end of that ramp"),
  };
}

}  // namespace pagoda
