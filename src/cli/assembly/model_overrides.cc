#include "cli/assembly/model_overrides.h"

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/runner_options.h"
#include "loader/adapter.h"
#include "loader/json_overrides.h"
#include "loader/printable.h"
#include "loader/quantization.h"
#include "models/weights/adapted_weights.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Converts the rope flags into fields of rope_scaling.
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

// A value of --quantization, and the types with which `pagoda quantize` produces such a model; empty if it
// cannot.
struct QuantizationValue {
  std::string_view name;
  QuantizationMethod method;
  std::string_view types = {};
  QuantizationMethod other = method;  // another method, for packages that support the layouts of two
};
constexpr QuantizationValue kQuantizations[] = {
    {"auto-round", QuantizationMethod::gptq, {}, QuantizationMethod::awq},
    {"awq", QuantizationMethod::awq},
    {"awq_marlin", QuantizationMethod::awq},
    {"bitnet", QuantizationMethod::bitnet},
    {"bitsandbytes", QuantizationMethod::bitsandbytes},
    {"compressed-tensors", QuantizationMethod::compressed_tensors, "w8a8|w4a16|fp8|mxfp4"},
    {"fbgemm_fp8", QuantizationMethod::fp8, "fp8"},
    {"fp8", QuantizationMethod::fp8, "fp8"},
    {"gptq", QuantizationMethod::gptq},
    {"gptq_marlin", QuantizationMethod::gptq},
    {"mlx", QuantizationMethod::mlx},
    {"modelopt", QuantizationMethod::modelopt},
    {"modelopt_fp4", QuantizationMethod::modelopt},
    {"modelopt_mixed", QuantizationMethod::modelopt},
    {"moe_wna16", QuantizationMethod::gptq, {}, QuantizationMethod::awq},
    {"mxfp4", QuantizationMethod::mxfp4, "mxfp4"},
};

// True if config.json, or else the tensors, say that the model is quantised by this method.
bool is_quantized_by(QuantizationMethod method, const ModelSource& source) {
  const auto how = read_quantization_files(source.config_json(),
                                           [&](std::string_view name) { return source.side_file(name); });
  if (how && how->method != QuantizationMethod::none) return how->method == method;
  return source.weight_type().starts_with(quantization_name(method));
}

}  // namespace

Result<ModelOverrides> model_overrides(const EngineFlags& flags) {
  ModelOverrides overrides = {.config = flags.hf_overrides, .metadata = flags.override_kv};
  overrides.quantize_activations = flags.quantize_activations == "on" ||
                                   (flags.quantize_activations == "auto" && flags.dtype != "float32");
  PAGODA_ASSIGN_OR_RETURN(const json::object rope, rope_fields(flags));
  if (rope.empty()) return overrides;
  overrides.rope = json::serialize(rope);
  // A linear scaling factor does not determine the new context length.
  const json::value* const type = rope.if_contains("rope_type");
  const bool linear = type != nullptr ? *type == "linear" : rope.contains("factor");
  if (!linear || !flags.max_model_len || *flags.max_model_len <= 0) return overrides;
  auto longer = with_overrides(overrides.config.empty() ? "{}" : overrides.config,
                               concat("{\"max_position_embeddings\":", *flags.max_model_len, "}"));
  if (!longer) return invalid_argument(longer.error().message()).annotate("--hf-overrides");
  overrides.config = *std::move(longer);
  return overrides;
}

Status check_quantization(std::string_view quantization, const ModelSource& source) {
  const auto refused = [&](auto... why) {
    return invalid_argument(concat("--quantization ", quantization, ": '", printable(source.path()), "' ",
                                   why..., "; leave the flag out"));
  };
  if (quantization.empty()) return ok_status();
  if (quantization == "gguf" || source.gguf() != nullptr)
    return quantization == "gguf" && source.gguf() != nullptr
               ? ok_status()
               : refused(source.gguf() != nullptr ? "is a GGUF file, whose tensors have types of their own"
                                                  : "is not a GGUF file");
  const auto value = std::ranges::find(kQuantizations, quantization, &QuantizationValue::name);
  if (value == std::end(kQuantizations) || is_quantized_by(value->method, source) ||
      is_quantized_by(value->other, source))
    return ok_status();
  if (value->types.empty()) return refused("has ", source.weight_type(), " weights, used as they are stored");
  return refused("has ", source.weight_type(), " weights, used as they are stored: `pagoda quantize --type ",
                 value->types, "` makes a folder quantised so");
}

Result<std::unique_ptr<ModelSource>> open_with_adapters(const std::string& path,
                                                        const ModelOverrides& overrides,
                                                        std::span<const AdapterFlag> adapters) {
  const HubPaths hub = hub_paths_from_environment();
  PAGODA_ASSIGN_OR_RETURN(auto source, ModelSource::open(path, hub, overrides));
  for (const AdapterFlag& each : adapters) {
    PAGODA_ASSIGN_OR_RETURN(Adapter adapter, Adapter::open(each.path, static_cast<float>(each.scale), hub));
    PAGODA_ASSIGN_OR_RETURN(source, with_adapter(std::move(source), std::move(adapter)));
  }
  return source;
}

Result<std::unique_ptr<ModelSource>> open_model(const EngineFlags& flags) {
  PAGODA_ASSIGN_OR_RETURN(const auto path, model_path(flags));
  PAGODA_ASSIGN_OR_RETURN(const auto overrides, model_overrides(flags));
  PAGODA_ASSIGN_OR_RETURN(auto source, open_with_adapters(path, overrides, flags.adapters));
  PAGODA_RETURN_IF_ERROR(check_quantization(flags.quantization, *source));
  for (const AdapterFlag& each : flags.adapters)
    log_info("start", concat("adapter '", printable(each.path), "' is merged into the model",
                             each.scale == 1 ? "" : concat(", times ", each.scale)));
  return source;
}

}  // namespace pagoda
