#include "loader/quantization.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "loader/quantization_fields.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Sets the group size as files write it: -1 means a whole row.
void set_group(WeightScheme& scheme, std::int64_t group, const Fields& fields) {
  scheme.scales = group == -1 ? ScaleShape::channel : ScaleShape::group;
  if (group > 0)
    scheme.group_size = static_cast<std::int32_t>(group);
  else if (group != -1)
    fields.fail("group_size", "positive or -1");
}

Status read_awq(const Fields& fields, Quantization& out) {
  const std::string version = fields.word(fields.given({"version", "checkpoint_format", "format"}), "gemm");
  if (version != "gemm") return refuse(out.method, concat("in the '", printable(version, 40), "' layout"));
  if (const std::int64_t bits = fields.size(fields.given({"bits", "w_bit"}), 4); bits != 4)
    return refuse(out.method, concat("in ", bits, " bits"));
  WeightScheme scheme{.number = QuantizedNumber::int4, .zero_points = fields.boolean("zero_point", true)};
  set_group(scheme, fields.size(fields.given({"group_size", "q_group_size"}), 128), fields);
  out.schemes.push_back(scheme);
  return ok_status();
}

Status read_gptq_scheme(const Fields& fields, const WeightScheme& otherwise, Quantization& out) {
  WeightScheme scheme = otherwise;
  const std::int64_t bits = fields.size("bits", bits_of(otherwise.number));
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return refuse(out.method, concat("in ", bits, " bits"));
  scheme.number = *integer_of(bits);
  if (fields.find("group_size") != nullptr) {
    scheme.group_size = 0;
    set_group(scheme, fields.size("group_size", 128), fields);
  }
  scheme.zero_points = !fields.boolean("sym", !otherwise.zero_points);
  scheme.activation_order = fields.boolean("desc_act", otherwise.activation_order);
  if (std::ranges::find(out.schemes, scheme) == out.schemes.end()) out.schemes.push_back(scheme);
  return ok_status();
}

Status read_gptq(const Fields& fields, Quantization& out) {
  const std::string format = fields.word(fields.given({"checkpoint_format", "format"}), "gptq");
  if (format != "gptq" && format != "gptq_v2")
    return refuse(out.method, concat("in the '", printable(format, 40), "' layout"));
  if (fields.boolean("is_marlin_format", false)) return refuse(out.method, "in the 'marlin' layout");
  if (fields.boolean("is_bitblas_format", false)) return refuse(out.method, "in the 'bitblas' layout");
  out.zeros_less_one = format == "gptq";
  PAGODA_RETURN_IF_ERROR(read_gptq_scheme(fields, {.scales = ScaleShape::group, .group_size = 128}, out));
  // GPTQModel: modules matching "-:PATTERN" are not quantised; those matching "+:PATTERN" or PATTERN have
  // other options.
  const json::object* overrides = fields.object("dynamic");
  if (overrides == nullptr) return ok_status();
  Status status;
  for (const auto& [pattern, values] : *overrides) {
    if (std::string_view(pattern).starts_with("-:")) continue;
    if (values.is_object()) {
      PAGODA_RETURN_IF_ERROR(read_gptq_scheme(Fields(values.get_object(), status), out.schemes.front(), out));
    } else {
      fields.fail("dynamic", "an object of objects");
    }
  }
  return status;
}

// AutoRound stores like GPTQ or AWQ, and has overrides per module; modules in 16 bits are not quantised.
Status read_auto_round(const Fields& fields, Quantization& out) {
  const std::string packing = fields.word("packing_format", "auto_round:auto_gptq");
  if (const std::string type = fields.word("data_type", "int"); type != "int")
    return unsupported_quantization(concat("AutoRound in ", printable(type, 40)));
  if (packing == "auto_round:auto_awq" || packing == "auto_round:awq") {
    out.method = QuantizationMethod::awq;
    return read_awq(fields, out);
  }
  out.zeros_less_one = packing == "auto_round:auto_gptq" || packing == "auto_round:gptq";
  if (!out.zeros_less_one && packing != "auto_round:gptqmodel" && packing != "auto_round")
    return unsupported_quantization(concat("AutoRound in the '", printable(packing, 40), "' layout"));
  const auto check_bits = [](const Fields& of) {
    const std::int64_t bits = of.size("bits", 4);
    return (bits >= 2 && bits <= 4) || bits >= 8
               ? ok_status()
               : unsupported_quantization(concat("AutoRound in ", bits, " bits"));
  };
  PAGODA_RETURN_IF_ERROR(check_bits(fields));
  PAGODA_RETURN_IF_ERROR(read_gptq_scheme(fields, {.scales = ScaleShape::group, .group_size = 128}, out));
  const json::object* overrides = fields.object("extra_config");
  if (overrides == nullptr) return ok_status();
  Status status;
  for (const auto& [name, values] : *overrides) {
    if (!values.is_object()) continue;
    const Fields layer(values.get_object(), status);
    PAGODA_RETURN_IF_ERROR(check_bits(layer));
    if (layer.size("bits", 4) < 16) PAGODA_RETURN_IF_ERROR(read_gptq_scheme(layer, out.schemes.front(), out));
  }
  return status;
}

// Dynamic scales for each `group` of a token's e4m3 numbers.
LinearArithmetic in_groups(std::int64_t group) {
  if (group % 64 != 0) return {};
  return {
      .number = InputNumber::e4m3, .scales = InputScale::group, .group = static_cast<std::int32_t>(group)};
}

Status read_fp8(const Fields& fields, Quantization& out) {
  const std::string format = fields.word(fields.given({"fmt", "weight_format"}), "e4m3");
  if (format != "e4m3" && format != "float8_e4m3fn")
    return refuse(out.method, concat("in ", printable(format, 40)));
  if (const std::string experts = fields.word("expert_dtype", "fp8"); experts != "fp8")
    return refuse(out.method, concat("with experts in ", printable(experts, 40)));
  WeightScheme scheme{.number = QuantizedNumber::e4m3, .scales = ScaleShape::tensor};
  scheme.activations.number = InputNumber::e4m3;
  if (fields.word("activation_scheme", "dynamic") == "static") scheme.activations.scales = InputScale::fixed;
  scheme.activations.largest = fields.positive("activation_scale_ub");
  if (const json::value* block = fields.find("weight_block_size")) {
    const json::array* sizes = block->if_array();
    const auto good = [](const json::value& size) {
      return size.is_int64() && size.get_int64() > 0 && size.get_int64() <= kMaxGroup;
    };
    if (sizes == nullptr || sizes->size() != 2 || !good((*sizes)[0]) || !good((*sizes)[1])) {
      fields.fail("weight_block_size", "two sizes");
    } else {
      scheme.scales = ScaleShape::block;
      scheme.block_rows = static_cast<std::int32_t>((*sizes)[0].get_int64());
      scheme.block_columns = static_cast<std::int32_t>((*sizes)[1].get_int64());
    }
  }
  out.schemes.push_back(scheme);
  if (scheme.scales == ScaleShape::block && scheme.activations.scales == InputScale::row)
    out.schemes.back().activations = in_groups(scheme.block_columns);
  // Some modules may have a scale per row or per tensor, whatever the file says.
  for (const ScaleShape other : {ScaleShape::tensor, ScaleShape::channel})
    if (scheme.scales != other)
      out.schemes.push_back({.number = scheme.number, .scales = other, .activations = scheme.activations});
  return ok_status();
}

// compressed-tensors' input_activations. 4-bit ones, and int8 with zero points, are not supported.
LinearArithmetic activations_of(const json::object* args, Status& status) {
  if (args == nullptr) return {};
  const Fields fields(*args, status);
  const std::string type = fields.word("type", "int");
  if (fields.size("num_bits", 8) != 8 || !fields.boolean("symmetric", true)) return {};
  if (type != "int" && type != "float") return {};
  LinearArithmetic out{.number = type == "int" ? InputNumber::int8 : InputNumber::e4m3};
  const json::value* dynamic = fields.find("dynamic");
  const bool is_dynamic = dynamic != nullptr && (dynamic->is_string() || *dynamic == json::value(true));
  const std::int64_t group = fields.size("group_size", 0);
  if (!is_dynamic) {
    out.scales = InputScale::fixed;
  } else if (group > 0) {
    return out.number == InputNumber::e4m3 ? in_groups(group) : LinearArithmetic{};
  }
  return out;
}

// QuantizationArgs of compressed-tensors; modelopt writes the same.
Status read_arguments(const json::object& args, QuantizationMethod method, WeightScheme& scheme) {
  Status status;
  const Fields fields(args, status);
  const std::int64_t bits = fields.size("num_bits", 8);
  const std::string type = fields.word("type", "int");
  const std::int64_t group = fields.size("group_size", 0);
  std::string strategy = fields.word("strategy", group > 0 ? "group" : group < 0 ? "channel" : "tensor");
  if (!status.ok()) return status;
  if (type == "int" && (bits == 4 || bits == 8)) {
    scheme.number = bits == 4 ? QuantizedNumber::int4 : QuantizedNumber::int8;
  } else if (type == "float" && bits == 8) {
    scheme.number = QuantizedNumber::e4m3;
  } else if (type == "float" && bits == 4 && (group == 16 || group == 32)) {
    scheme.number = group == 16 ? QuantizedNumber::nvfp4 : QuantizedNumber::mxfp4;
    strategy = "group";
  } else {
    return refuse(method, concat("in ", bits, "-bit ", printable(type, 20)));
  }
  if (scheme.number == QuantizedNumber::e4m3 && strategy == "group")
    return refuse(method, concat("in 8-bit float with groups of ", group));
  scheme.zero_points = !fields.boolean("symmetric", true);
  if (const json::value* order = fields.find("actorder"))
    scheme.activation_order =
        *order == json::value(true) || *order == json::value("group") || *order == json::value("dynamic");
  if (strategy == "group" || strategy == "tensor_group") {
    set_group(scheme, group, fields);
  } else if (strategy == "tensor" || strategy == "channel") {
    scheme.scales = strategy == "tensor" ? ScaleShape::tensor : ScaleShape::channel;
  } else if (strategy == "block") {
    scheme.scales = ScaleShape::block;
    const json::value* block = fields.find("block_structure");
    const json::array* sizes = block == nullptr ? nullptr : block->if_array();
    const auto size = [&](std::size_t i) -> std::int32_t {
      if (sizes == nullptr || sizes->size() != 2 || !(*sizes)[i].is_int64()) return 0;
      return static_cast<std::int32_t>(std::clamp<std::int64_t>((*sizes)[i].get_int64(), 0, kMaxGroup));
    };
    scheme.block_rows = size(0);
    scheme.block_columns = size(1);
    if (scheme.block_rows == 0 || scheme.block_columns == 0) fields.fail("block_structure", "two sizes");
  } else {
    return refuse(method, concat("with the strategy '", printable(strategy, 40), "'"));
  }
  return status;
}

Status read_groups(const json::object& groups, Quantization& out) {
  for (const auto& [name, group] : groups) {
    if (!group.is_object())
      return refuse(out.method, concat("with the preset '", printable(name, 40), "' instead of its values"));
    Status status;
    const Fields fields(group.get_object(), status);
    const json::object* weights = fields.object("weights");
    if (weights == nullptr) continue;  // only activations are quantised
    WeightScheme scheme;
    PAGODA_RETURN_IF_ERROR(read_arguments(*weights, out.method, scheme));
    scheme.activations = activations_of(fields.object("input_activations"), status);
    if (!status.ok()) return status;
    out.schemes.push_back(scheme);
  }
  return ok_status();
}

Status read_compressed_tensors(const Fields& fields, Quantization& out) {
  if (const json::object* transform = fields.object("transform_config")) {
    const json::value* groups = transform->if_contains("config_groups");
    if (groups != nullptr && groups->is_object() && !groups->get_object().empty())
      return refuse(out.method, "with transforms (transform_config)");
  }
  if (const json::object* sparsity = fields.object("sparsity_config")) {
    Status status;
    const std::string format = Fields(*sparsity, status).word("format", "dense");
    if (format != "dense") return refuse(out.method, concat("in the format '", printable(format, 40), "'"));
  }
  constexpr std::string_view kFormats[] = {
      "pack-quantized",       "int-quantized",   "float-quantized",      "naive-quantized",
      "nvfp4-pack-quantized", "mixed-precision", "mxfp4-pack-quantized", "dense"};
  const std::string format = fields.word("format", "dense");
  if (std::ranges::find(kFormats, format) == std::end(kFormats))
    return refuse(out.method, concat("in the format '", printable(format, 40), "'"));
  if (const json::object* groups = fields.object("config_groups"))
    PAGODA_RETURN_IF_ERROR(read_groups(*groups, out));
  return ok_status();
}

// Reads one of modelopt's algorithms.
Status read_algorithm(std::string_view algorithm, std::int64_t group, Quantization& out) {
  if (algorithm == "nvfp4" || algorithm == "nvfp4_awq" || algorithm == "w4a16_nvfp4") {
    if (group != 16) return refuse(out.method, concat("NVFP4 with groups of ", group));
    out.schemes.push_back({.number = QuantizedNumber::nvfp4, .group_size = 16});
  } else if (algorithm == "fp8") {
    out.schemes.push_back({.number = QuantizedNumber::e4m3,
                           .scales = ScaleShape::tensor,
                           .activations = {.number = InputNumber::e4m3, .scales = InputScale::fixed}});
  } else if (algorithm == "fp8_per_channel_per_token") {
    out.schemes.push_back({.number = QuantizedNumber::e4m3,
                           .scales = ScaleShape::channel,
                           .activations = {.number = InputNumber::e4m3}});
  } else if (algorithm == "fp8_pb_wo") {
    out.schemes.push_back({.number = QuantizedNumber::e4m3,
                           .scales = ScaleShape::block,
                           .block_rows = 128,
                           .block_columns = 128});
  } else {
    return refuse(out.method, printable(algorithm, 40));
  }
  return ok_status();
}

Status read_modelopt(const Fields& fields, Quantization& out) {
  Status status;
  if (const json::object* inner = fields.object("quantization")) {
    const Status read = read_modelopt(Fields(*inner, status), out);
    return status.ok() ? read : status;
  }
  const std::string algorithm = fields.word("quant_algo", "");
  if (algorithm == "mixed_precision") {
    const json::object* layers = fields.object("quantized_layers");
    if (layers == nullptr) return refuse(out.method, "in mixed precision without its quantized_layers");
    for (const auto& [name, values] : *layers) {
      if (!values.is_object()) continue;
      const Fields layer(values.get_object(), status);
      Quantization one{.method = out.method};
      PAGODA_RETURN_IF_ERROR(read_algorithm(layer.word("quant_algo", ""), layer.size("group_size", 16), one));
      if (std::ranges::find(out.schemes, one.schemes.front()) == out.schemes.end())
        out.schemes.push_back(one.schemes.front());
    }
    return status;
  }
  const std::int64_t group = fields.size("group_size", 16);
  PAGODA_RETURN_IF_ERROR(status);
  if (!algorithm.empty()) return read_algorithm(algorithm, group, out);
  if (fields.find(fields.given({"kv_cache_quant_algo", "kv_cache_scheme"})) == nullptr)
    return corrupt_data("modelopt's 'quant_algo' is missing");
  out.method = QuantizationMethod::none;  // only the KV cache is quantised
  return ok_status();
}

// Weights of -1, 0 and 1, and 8-bit activations.
Status read_bitnet(const Fields& fields, Quantization& out) {
  if (const std::string mode = fields.word("quantization_mode", "offline"); mode != "offline")
    return refuse(out.method, concat("in the mode '", printable(mode, 40), "'"));
  if (fields.boolean("use_rms_norm", false)) return refuse(out.method, "with its own norms (use_rms_norm)");
  out.inverse_scales = fields.word("linear_class", "bitlinear") == "bitlinear";
  out.schemes.push_back({.number = QuantizedNumber::int4,
                         .scales = ScaleShape::tensor,
                         .activations = {.number = InputNumber::int8}});
  return ok_status();
}

Status read_bitsandbytes(const Fields& fields, Quantization& out) {
  const std::string type = fields.word("bnb_4bit_quant_type", "nf4");
  if (fields.boolean(fields.given({"load_in_8bit", "_load_in_8bit"}), false)) {
    out.schemes.push_back({.number = QuantizedNumber::int8, .scales = ScaleShape::channel});
  } else if (type == "nf4" || type == "fp4") {
    out.schemes.push_back(
        {.number = type == "nf4" ? QuantizedNumber::nf4 : QuantizedNumber::fp4, .group_size = 64});
  } else {
    return refuse(out.method, printable(type, 40));
  }
  return ok_status();
}

Status read_mxfp4(const Fields&, Quantization& out) {
  out.schemes.push_back({.number = QuantizedNumber::mxfp4, .group_size = 32});
  return ok_status();
}

struct Method {
  std::string_view written;
  QuantizationMethod method;
  Status (*read)(const Fields&, Quantization&);
};
constexpr Method kMethods[] = {
    {"auto-round", QuantizationMethod::gptq, read_auto_round},
    {"awq", QuantizationMethod::awq, read_awq},
    {"bitnet", QuantizationMethod::bitnet, read_bitnet},
    {"bitsandbytes", QuantizationMethod::bitsandbytes, read_bitsandbytes},
    {"compressed-tensors", QuantizationMethod::compressed_tensors, read_compressed_tensors},
    {"fp8", QuantizationMethod::fp8, read_fp8},
    {"fbgemm_fp8", QuantizationMethod::fp8, read_fp8},
    {"gptq", QuantizationMethod::gptq, read_gptq},
    {"intel/auto-round", QuantizationMethod::gptq, read_auto_round},
    {"mlx", QuantizationMethod::mlx, read_mlx},
    {"modelopt", QuantizationMethod::modelopt, read_modelopt},
    {"mxfp4", QuantizationMethod::mxfp4, read_mxfp4},
};

}  // namespace

Result<Quantization> read_quantization(const json::object& how) {
  Quantization out;
  const std::string written = quantization_method(how);
  if (how.empty() || written == "none") return out;
  const auto method =
      std::ranges::find(kMethods, written.starts_with("modelopt") ? "modelopt" : written, &Method::written);
  if (method == std::end(kMethods)) return unsupported_quantization(printable(written, 40));
  out.method = method->method;
  Status status;
  const Status read = method->read(Fields(how, status), out);
  PAGODA_RETURN_IF_ERROR(status);
  PAGODA_RETURN_IF_ERROR(read);
  return out;
}

}  // namespace pagoda
