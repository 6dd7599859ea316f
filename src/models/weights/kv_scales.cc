#include "models/weights/kv_scales.h"

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "kernels/dequantize.h"
#include "loader/json_object.h"
#include "loader/printable.h"
#include "loader/quantization.h"

namespace pagoda {
namespace {

// Returns the first of these tensors of `module`; it must be one number above 0.
Result<std::optional<float>> scale_of(const ModelSource& source, std::string_view module,
                                      std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends) {
    const std::string name = concat(module, ".", end);
    const TensorView* const tensor = source.find_kv_scale(name);
    if (tensor == nullptr) continue;
    if (tensor->elements() != 1)
      return unimplemented(concat("tensor '", printable(name), "' has ", tensor->elements(),
                                  " scales of keys or values; one for a layer is supported"));
    float scale = 0;
    if (tensor->dtype != DType::f32 && tensor->dtype != DType::f16 && tensor->dtype != DType::bf16)
      return unimplemented(concat("tensor '", printable(name), "' is not a float of 16 or 32 bits"));
    PAGODA_RETURN_IF_ERROR(source.bring_in(*tensor));
    dequantize(tensor->dtype, tensor->data, 1, &scale);
    if (!std::isnormal(scale) || scale < 0)
      return corrupt_data(concat("tensor '", printable(name), "', a scale, is not a number above 0"));
    return std::optional(scale);
  }
  return std::optional<float>();
}

// Returns e.g. "model.layers.0.self_attn" for "model.layers.0.self_attn.k_proj.weight".
std::string_view module_of(std::string_view weight) {
  for (int i = 0; i < 2; ++i) weight = weight.substr(0, weight.rfind('.'));
  return weight;
}

// True if config.json says that keys and values were calibrated for integers.
bool scales_integers(const ModelSource& source) {
  const auto config = parse_json_object(source.config_json(), "config.json");
  if (!config) return false;
  const auto* const how = quantization_object(*config);
  const auto* const scheme = how == nullptr ? nullptr : how->if_contains("kv_cache_scheme");
  if (scheme == nullptr || !scheme->is_object()) return false;
  const auto* const type = scheme->get_object().if_contains("type");
  return type != nullptr && type->is_string() && type->get_string() == "int";
}

}  // namespace

Result<KvScales> kv_scales_of_layer(const ModelSource& source, const WeightReader& reader,
                                    const WeightNames& names, std::string_view prefix) {
  std::string weight;
  for (const std::string& name : {names.key, names.fused_qkv, names.kv_a})
    if (weight.empty() && !name.empty()) weight = reader.name_in_file(concat(prefix, name, ".weight"));
  if (weight.empty()) return KvScales{};
  const std::string_view module = module_of(weight);
  PAGODA_ASSIGN_OR_RETURN(auto key, scale_of(source, module,
                                             {"k_scale", "attn.k_scale", "k_proj.k_scale", "qkv_proj.k_scale",
                                              "k_proj.output_scale", "kv_scale", "attn.kv_scale"}));
  PAGODA_ASSIGN_OR_RETURN(auto value,
                          scale_of(source, module,
                                   {"v_scale", "attn.v_scale", "v_proj.v_scale", "qkv_proj.v_scale",
                                    "v_proj.output_scale", "kv_scale", "attn.kv_scale"}));
  if (!key && !value) return KvScales{};
  return KvScales{
      .key = key.value_or(value.value_or(1)), .value = value.value_or(key.value_or(1)), .in_file = true};
}

Result<std::vector<KvScales>> kv_scales(const ModelSource& source, const ModelInfo& model) {
  std::vector<KvScales> out;
  if (source.format() == ModelFormat::gguf) {
    out.resize(model.decoder.layers.size());
    return out;
  }
  const WeightNames names = model.names(source.format());
  const WeightReader reader(source, names.prefix, names.other_prefixes);
  bool in_file = false;
  for (std::size_t i = 0; i < model.decoder.layers.size(); ++i) {
    const AttentionConfig* const attention = model.decoder.layers[i].attention();
    const bool own = attention == nullptr || attention->has_own_kv();
    const auto layer = own ? static_cast<std::int32_t>(i) : attention->kv_layer;
    PAGODA_ASSIGN_OR_RETURN(const KvScales scales,
                            kv_scales_of_layer(source, reader, names, names.layer_prefix(layer)));
    if (scales.in_file && !in_file && scales_integers(source))
      return unimplemented("the folder's scales are for keys and values in integers (kv_cache_scheme)");
    in_file = in_file || scales.in_file;
    out.push_back(scales);
  }
  return out;
}

}  // namespace pagoda
