// Llama 4 (text): Llama with mixtures of which a token takes one expert and a shared one, and its weight lies
// on what that expert reads; norms without weights of every query and key head behind the rotation. Every
// fourth layer does not rotate; its queries grow with the position instead. The others see their chunk of
// 8192 tokens alone.
#include <algorithm>

#include "models/family.h"
#include "models/reading.h"

namespace pagoda {
namespace {

void read_llama4(Hyperparameters& h, ModelConfig& config) {
  read_common(h,
              {.vocab_size = 202048,
               .hidden_size = 5120,
               .intermediate_size = 8192,
               .num_layers = 48,
               .num_heads = 40,
               .num_kv_heads = 8,
               .max_positions = 131072,
               .norm_eps = 1e-5f,
               .rope_theta = 500000.0f,
               .bos = 1,
               .eos = 2,
               .head_size = 128},
              config);
  config.rope_interleaved_rows = true;
  ExpertsConfig& experts = config.experts;
  experts.count = num_experts(h, 16);
  experts.per_token = h.integer("num_experts_per_tok", 1);
  experts.intermediate_size = experts.shared_intermediate_size = config.intermediate_size;
  experts.score = ExpertScore::sigmoid;
  config.intermediate_size = h.integer("intermediate_size_mlp", 16384);
  const std::int32_t step = h.integer("interleave_moe_layer_step", 1);
  const std::int32_t period = h.integer("no_rope_layer_interval", 4);
  if (step < 1) return h.fail("interleave_moe_layer_step", "a positive integer");
  if (period < 1) return h.fail("no_rope_layer_interval", "a positive integer");
  const bool written = h.find("moe_layers") != nullptr;
  const std::vector<std::int32_t> named = h.integers("moe_layers");
  for (std::int32_t layer = 0; layer < listed_layers(config); ++layer) {
    experts.layers.push_back(written ? std::find(named.begin(), named.end(), layer) != named.end()
                                     : (layer + 1) % step == 0);
    config.rope_layers.push_back((layer + 1) % period != 0);
  }
  const json::value* rotating = h.find("no_rope_layers");
  if (rotating != nullptr && !(rotating->is_array() && rotating->get_array().empty())) {
    config.rope_layers.clear();
    for (const bool rotates : h.flags("no_rope_layers", listed_layers(config)))
      config.rope_layers.push_back(rotates);  // 1: rotates, whatever the name says
  }
  config.query_key_norm = h.boolean("use_qk_norm", true);
  if (h.boolean("attn_temperature_tuning", true)) {
    config.temperature_beta = h.number("attn_scale", 0.1f);
    config.temperature_positions = h.integer("floor_scale", 8192);
  }
  // Chunks, where a layer rotates.
  config.sliding_window = h.integer("attention_chunk_size", 8192);
  if (!read_layer_types(h, config, "chunked_attention")) config.window_layers = config.rope_layers;
  finish_windows(h, config);
}

Result<DecoderConfig> describe(const ModelConfig& config) {
  auto decoder = common_description(config);
  if (!decoder) return decoder.error();
  for (LayerConfig& layer : decoder->layers) {
    AttentionConfig& attention = *layer.attention();
    attention.chunks = attention.sliding_window > 0;
    if (attention.rope == kNoRope) {
      attention.temperature_offset = 1;
    } else {
      attention.temperature_beta = 0;
      if (config.query_key_norm) attention.query_key_norm = QueryKeyNorm::per_head_unweighted;
      attention.norm_after_rope = true;
    }
    if (MixtureConfig* mixture = layer.mixture()) mixture->weigh_input = true;
  }
  return decoder;
}

WeightNames names(ModelFormat format) {
  WeightNames names = llama_names(format);
  if (format == ModelFormat::gguf) return names;
  names.gate = "feed_forward.gate_proj";
  names.up = "feed_forward.up_proj";
  names.down = "feed_forward.down_proj";
  names.experts = {{.router = "feed_forward.router",
                    .down = "feed_forward.experts.down_proj",
                    .gate_up = "feed_forward.experts.gate_up_proj",
                    .weight = "",
                    .transposed = true,
                    .shared_gate = "feed_forward.shared_expert.gate_proj",
                    .shared_up = "feed_forward.shared_expert.up_proj",
                    .shared_down = "feed_forward.shared_expert.down_proj"}};
  return names;
}

// The file leaves out what all models of the family have alike. Maverick, of 128 experts, alone has no norms
// of queries and h.
void read_gguf(Hyperparameters& h, ModelConfig& config) {
  read_gguf_common(h,
                   {.interleaved_rows = true,
                    .experts = {.known = true, .score = ExpertScore::sigmoid, .renormalize = false}},
                   config);
  constexpr std::int32_t kChunk = 8192;
  rotate_three_of_four(config);
  read_layers_with_routers(h, config);
  config.experts.shared_intermediate_size = config.experts.intermediate_size;
  config.query_key_norm = config.experts.count != 128;
  config.temperature_beta = 0.1f;
  config.temperature_positions = kChunk;
  config.sliding_window = kChunk;
  config.window_layers = config.rope_layers;
}

}  // namespace

PAGODA_FAMILY(llama4) = {
    .architecture = "llama4",
    .configs = {{"Llama4ForCausalLM", "Llama4TextModel", "llama4_text", read_llama4}},
    .wrappers = {{"Llama4ForConditionalGeneration", "llama4", "llama4_text"}},
    .ggufs = {{"llama4", read_gguf}},
    .describe = describe,
    .names = names,
    .row = {.name = "Llama 4: Scout, Maverick (text)",
            .differs = "mixtures weighed before the expert, norms without weights, chunks of 8192 tokens but "
                       "for every fourth layer, which does not rotate",
            .checked = "transformers",
            .size = "Scout",
            .config = R"({"model_type":"llama4_text"})"}};

}  // namespace pagoda
