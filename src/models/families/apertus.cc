// Apertus: Llama with norms of queries and keys, and xIELU between the two matrices of a plain MLP.
#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_apertus(Hyperparameters& h, ModelConfig& config) {
  Defaults absent = {.vocab_size = 131072,
                     .hidden_size = 4096,
                     .intermediate_size = 14336,
                     .num_layers = 32,
                     .num_heads = 32,
                     .max_positions = 65536,
                     .norm_eps = 1e-5f,
                     .rope_theta = 12000000.0f,
                     .bos = 1,
                     .eos = 2,
                     .pad = 3};
  absent.activation = "xielu";
  read_common(h, absent, config);
  if (h.object("rope_scaling") == nullptr && h.object("rope_parameters") == nullptr) {
    config.rope_scaling = RopeScaling::llama3;
    config.rope_factor = 8;
    config.rope_original_positions = 8192;
  }
  if (config.activation != "xielu") h.refuse("config.json: 'hidden_act' of Apertus can only be 'xielu'");
  config.activation = "silu";  // no matrix has it
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = qwen3_description(config);
  if (!decoder) return decoder.error();
  for (std::size_t index = 0; index < decoder->layers.size(); ++index) {
    XieluConfig curve = {.intermediate_size = decoder->layers[index].dense()->intermediate_size};
    if (!config.xielu.empty()) {
      const XieluNumbers& numbers = config.xielu[index];
      curve.alpha_p = numbers.alpha_p;
      curve.alpha_n = numbers.alpha_n;
      curve.beta = numbers.beta;
      curve.eps = numbers.eps;
    }
    decoder->layers[index].feed_forward = curve;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  names.gate = "";
  if (format == ModelFormat::gguf) return names;  // whose curves stand in its metadata
  names.attention_norm = "attention_layernorm";
  names.mlp_norm = "feedforward_layernorm";
  names.curve = "mlp.act_fn";
  return names;
}

// A number of each layer's curve, or one for all; under names without the architecture's.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h, {}, config);
  const auto count = static_cast<std::size_t>(listed_layers(config));
  const auto numbers = [&](std::string_view name) {
    std::vector<float> out;
    if (const GgufArray* array = h.gguf()->array(name))
      for (const double each : array->floats) out.push_back(static_cast<float>(each));
    else if (const std::optional<double> one = h.gguf()->number(name))
      out.assign(count, static_cast<float>(*one));
    if (out.size() != count)
      h.fail(corrupt_data(concat("GGUF metadata '", name, "' is not a number for each layer")));
    out.resize(count);
    return out;
  };
  const auto alpha_p = numbers("xielu.alpha_p"), alpha_n = numbers("xielu.alpha_n"),
             beta = numbers("xielu.beta"), eps = numbers("xielu.eps");
  for (std::size_t layer = 0; layer < count; ++layer)
    config.xielu.push_back({alpha_p[layer], alpha_n[layer], beta[layer], eps[layer]});
}

}  // namespace

PAGODA_FAMILY(apertus) = {.architecture = "apertus",
                          .configs = {{"ApertusForCausalLM", "ApertusModel", "apertus", read_apertus}},
                          .ggufs = {{"apertus", read_gguf}},
                          .describe = describe,
                          .names = names,
                          .row = {.name = "Apertus 8B, 70B",
                                  .differs = "norms of queries and keys, plain MLP of xIELU",
                                  .checked = "transformers",
                                  .size = "8B",
                                  .config = R"({"model_type":"apertus","num_key_value_heads":8})"}};

}  // namespace pagoda
