#include "cli/assembly/model_overrides.h"

#include <boost/json.hpp>

#include "base/strings.h"
#include "loader/json_overrides.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// The flags as fields of rope_scaling.
Result<json::object> rope_fields(const EngineFlags& flags) {
  const RopeFlags& rope = flags.rope;
  if (rope.scale > 0 && rope.freq_scale > 0)
    return invalid_argument("--rope-scale and --rope-freq-scale set the same value: give one of them");
  const double factor = rope.freq_scale > 0 ? 1 / rope.freq_scale : rope.scale;
  const bool yarn =
      rope.yarn_original > 0 || rope.yarn_scale > 0 || rope.yarn_beta_fast > 0 || rope.yarn_beta_slow > 0;
  if (yarn && !rope.scaling.empty() && rope.scaling != "yarn")
    return invalid_argument("--yarn-* flags need --rope-scaling yarn");
  json::object scaling;
  if (!rope.scaling.empty())
    scaling["rope_type"] = rope.scaling == "none" ? "default" : rope.scaling;
  else if (yarn)
    scaling["rope_type"] = "yarn";
  if (factor > 0) scaling["factor"] = factor;
  if (rope.yarn_original > 0) scaling["original_max_position_embeddings"] = rope.yarn_original;
  if (rope.yarn_scale > 0) scaling["attention_factor"] = rope.yarn_scale;
  if (rope.yarn_beta_fast > 0) scaling["beta_fast"] = rope.yarn_beta_fast;
  if (rope.yarn_beta_slow > 0) scaling["beta_slow"] = rope.yarn_beta_slow;
  if (rope.freq_base > 0) scaling["rope_theta"] = rope.freq_base;
  return scaling;
}

}  // namespace

Result<ModelOverrides> model_overrides(const EngineFlags& flags) {
  ModelOverrides overrides = {.config = flags.hf_overrides, .metadata = flags.override_kv};
  overrides.quantize_activations = flags.quantize_activations == "on" ||
                                   (flags.quantize_activations == "auto" && flags.dtype != "float32");
  const Result<json::object> rope = rope_fields(flags);
  if (!rope) return rope.error();
  if (rope->empty()) return overrides;
  overrides.rope = json::serialize(*rope);
  // A linear factor does not say how long the context is now.
  const json::value* const type = rope->if_contains("rope_type");
  const bool linear = type != nullptr ? *type == "linear" : rope->contains("factor");
  if (!linear || !flags.max_model_len || *flags.max_model_len <= 0) return overrides;
  auto longer = with_overrides(overrides.config.empty() ? "{}" : overrides.config,
                               concat("{\"max_position_embeddings\":", *flags.max_model_len, "}"));
  if (!longer) return invalid_argument(longer.error().message()).annotate("--hf-overrides");
  overrides.config = *std::move(longer);
  return overrides;
}

}  // namespace pagoda
