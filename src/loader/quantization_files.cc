// Quantization: finds its description in a folder's files, and infers the method if it is not named.
#include "base/ascii.h"
#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/json_object.h"
#include "loader/quantization.h"

namespace pagoda {
namespace {

namespace json = boost::json;

const json::object* object_at(const json::object& of, std::string_view name) {
  const json::value* const value = of.if_contains(name);
  return value != nullptr && value->is_object() && !value->get_object().empty() ? &value->get_object()
                                                                                : nullptr;
}

}  // namespace

const json::object* quantization_object(const json::object& config) {
  const json::object* const part = language_part(config);
  for (const json::object* each : {&config, part}) {
    if (each == nullptr) continue;
    // MLX's own, which may stand beside that of the model that was converted.
    const json::object* const mlx = object_at(*each, "quantization");
    if (mlx != nullptr && quantization_method(*mlx) == "mlx") return mlx;
    for (const std::string_view name : {"quantization_config", "compression_config", "quantization"}) {
      const json::object* const how = object_at(*each, name);
      if (how == nullptr) continue;
      // The first compressed-tensors nested it one level deeper, beside `sparsity_config`.
      const json::object* const inner = object_at(*how, "quantization_config");
      return inner != nullptr ? inner : how;
    }
  }
  return nullptr;
}

std::string quantization_method(const json::object& how) {
  const auto has = [&](std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
      if (how.contains(name)) return true;
    return false;
  };
  const json::value* const method = how.if_contains("quant_method");
  if (method != nullptr && method->is_string()) return lowered(std::string_view(method->get_string()));
  if (has({"quant_algo", "producer"})) return "modelopt";
  if (has({"config_groups", "sparsity_config"})) return "compressed-tensors";
  if (has({"load_in_4bit", "load_in_8bit"})) return "bitsandbytes";
  if (has({"w_bit", "q_group_size", "zero_point"})) return "awq";
  if (has({"desc_act", "damp_percent", "true_sequential"})) return "gptq";
  return has({"group_size", "mode"}) && has({"bits"}) ? "mlx" : "an unnamed method";
}

Result<Quantization> read_quantization_files(std::string_view config_json, const SideFile& side_file) {
  PAGODA_ASSIGN_OR_RETURN(const json::object config, parse_json_object(config_json, "config.json"));
  if (const json::object* how = quantization_object(config)) return read_quantization(*how);
  for (const std::string_view name : kQuantizationFiles) {
    const std::optional<std::string> text = side_file ? side_file(name) : std::nullopt;
    if (!text) continue;
    const Result<json::object> how = parse_json_object(*text, name);
    if (name == kQuantizationFiles.front()) return how ? read_quantization(*how) : how.error();
    // Other programs use these names for their own files.
    if (how && (quantization_method(*how) == "awq" || quantization_method(*how) == "gptq"))
      return read_quantization(*how);
  }
  return Quantization{};
}

}  // namespace pagoda
