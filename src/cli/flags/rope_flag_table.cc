// The rows of flags that change a model's rotation, by llama-server's names, and of GGUF metadata.
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_values.h"

namespace pagoda {

std::vector<Flag> rope_flag_table(EngineFlags& flags) {
  RopeFlags& rope = flags.rope;
  const auto number = [](const char* name, double& variable, double high, const char* help) {
    return Flag{.name = name,
                .value = flags::number(variable, 0, high),
                .help = help,
                .default_text = "the model's own"};
  };
  FlagValue scaling = flags::choice(rope.scaling, {"none", "linear", "yarn"});
  const auto store_kv = [&flags](const std::string& value) {
    flags.override_kv += (flags.override_kv.empty() ? "" : ",") + value;
    return ok_status();
  };
  return {
      {.name = "override-kv",
       .value = {.shape = FlagValue::Shape::repeated, .type = "KEY=TYPE:VALUE,...", .store = store_kv},
       .help = "GGUF metadata to override; TYPE is int, float, bool or str",
       .default_text = "none"},
      {.name = "rope-scaling",
       .value = std::move(scaling),
       .help = "RoPE scaling method for longer contexts",
       .details = "RoPE scaling method for longer contexts; without it, any of `--yarn-*` selects yarn, and "
                  "`--rope-scale` alone keeps the model's own yarn or else selects linear",
       .default_text = "the model's own"},
      number("rope-scale", rope.scale, 1e6, "RoPE scale: factor by which the context grows"),
      number("rope-freq-scale", rope.freq_scale, 1, "RoPE frequency scale: the inverse of --rope-scale"),
      number("rope-freq-base", rope.freq_base, 1e12, "RoPE base frequency (rope_theta)"),
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
