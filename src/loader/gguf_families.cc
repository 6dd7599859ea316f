#include "loader/gguf_families.h"

#include <algorithm>
#include <cmath>

namespace pagoda {

std::set<std::string_view> tensor_names(const GgufFile& file) {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : file.tensor_list()) names.insert(tensor.name);
  return names;
}

bool has_tensor(const GgufFile& file, std::string_view name) {
  const auto& tensors = file.tensor_list();
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const GgufTensor& tensor) { return tensor.name == name; });
}

// A layer has a mixture if the file has a router for it.
void read_layers_with_routers(const GgufFile& file, Keys&, ModelConfig& config) {
  const std::set<std::string_view> names = tensor_names(file);
  for (std::size_t layer = 0; layer < config.experts.layers.size(); ++layer)
    config.experts.layers[layer] = names.contains(concat("blk.", layer, ".ffn_gate_inp.weight"));
}

// Files of Granite 4 whose layers all attend keep the sizes (ssm.*) of states that no layer has.
void read_granite(const GgufFile&, Keys& keys, ModelConfig& config) {
  config.embedding_scale = keys.number("embedding_scale", 1.0f);
  config.residual_scale = keys.number("residual_scale", 1.0f);
  config.attention_scale = keys.number("attention.scale", 0.0f);
  config.logit_scale = 1 / keys.number("logit_scale", 1.0f);
}

namespace {

// The file does not say how near the best an expert must be to count.
void read_phimoe(const GgufFile&, Keys& keys, ModelConfig& config) {
  if (config.experts.per_token != 2)
    keys.fail(unimplemented("GGUF option 'phimoe.expert_used_count' other than 2 is not supported"));
  config.experts.score = ExpertScore::sparse_mixer;
  config.experts.renormalize = false;
  config.experts.near = 0.02f;
}

void read_mistral3(const GgufFile&, Keys& keys, ModelConfig& config) {
  config.temperature_beta = keys.number("attention.temperature_scale", 0.0f);
  config.temperature_positions = config.rope_original_positions;
}

void read_query_key_norm(const GgufFile& file, Keys&, ModelConfig& config) {
  config.query_key_norm = has_tensor(file, "blk.0.attn_q_norm.weight");
}

void read_cohere(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.logit_scale = keys.number("logit_scale", 1.0f);
  if (config.architecture != "cohere2") return read_query_key_norm(file, keys, config);
  read_window_pattern(file, keys, 4, config);
  config.rope_layers = config.window_layers;
  if (config.rope_layers.empty())
    config.rope_layers.assign(static_cast<std::size_t>(std::clamp(config.num_layers, 0, 4096)), false);
}

// Dense layers rotate whether or not they have a window.
void read_cohere2_moe(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.logit_scale = keys.number("logit_scale", 1.0f);
  read_layers_with_routers(file, keys, config);
  read_window_pattern(file, keys, 4, config);
  for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
    config.rope_layers.push_back(config.has_window(layer) || !config.experts.in_layer(layer));
  if (config.experts.shared_intermediate_size > 0) config.experts.scale = config.experts.shared_scale = 0.5f;
  if (keys.has("attention.layer_norm_rms_epsilon")) config.architecture = "cohere2moe rms";
}

// The scale of queries is the weight of their norm; how norms behind each half round is in no file.
void read_muse_glimmer(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.query_key_norm = true;
  config.branch_norm_eps = 1e-8f;
  config.logit_scale = keys.number("logit_scale");
  config.logit_softcap = keys.number("final_logit_softcapping", 0.0f);
  config.rope_theta = keys.number("rope.freq_base_swa", config.rope_theta);  // no other layers rotate
  read_window_pattern(file, keys, 4, config);
  config.rope_layers = config.window_layers;
  if (config.rope_layers.empty())
    config.rope_layers.assign(static_cast<std::size_t>(std::clamp(config.num_layers, 0, 4096)), false);
}

void read_exaone4(const GgufFile& file, Keys& keys, ModelConfig& config) {
  if (config.sliding_window == 0) return;
  read_window_pattern(file, keys, 4, config);
  config.rope_layers = config.window_layers;
}

void read_falcon(const GgufFile& file, Keys&, ModelConfig& config) {
  if (has_tensor(file, "blk.0.attn_norm_2.weight")) config.architecture = "falcon two norms";
}

void read_alibi(const GgufFile&, Keys& keys, ModelConfig& config) {
  config.attention_clip = keys.number("attention.clamp_kqv", 0.0f);
  config.alibi_max = keys.number("attention.max_alibi_bias", 8.0f);
}

// Of those that see, converters lay out the rotated rows by halves, as llama.cpp's rotation in sections wants
// them.
void read_glm4(const GgufFile& file, Keys&, ModelConfig& config) {
  const GgufArray* const sections = file.array("glm4.rope.dimension_sections");
  if (sections != nullptr && sections->integers.size() > 1 && sections->integers[1] > 0)
    config.rope_interleaved_rows = false;
}

void read_glm4_moe(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_layers_with_routers(file, keys, config);
  read_query_key_norm(file, keys, config);
}

// The file does not say that the blend of frequencies begins and ends between whole dimensions.
void read_gpt_oss(const GgufFile& file, Keys& keys, ModelConfig& config) {
  config.rope_truncate = false;
  read_window_pattern(file, keys, 2, config);
}

// A number of each layer's curve, or one for all; under names without the architecture's.
void read_apertus(const GgufFile& file, Keys& keys, ModelConfig& config) {
  const auto count = static_cast<std::size_t>(std::clamp(config.num_layers, 0, 4096));
  const auto numbers = [&](std::string_view name) {
    std::vector<float> out;
    if (const GgufArray* array = file.array(name))
      for (const double each : array->floats) out.push_back(static_cast<float>(each));
    else if (const std::optional<double> one = file.number(name))
      out.assign(count, static_cast<float>(*one));
    if (out.size() != count)
      keys.fail(corrupt_data(concat("GGUF metadata '", name, "' is not a number for each layer")));
    out.resize(count);
    return out;
  };
  const auto alpha_p = numbers("xielu.alpha_p"), alpha_n = numbers("xielu.alpha_n"),
             beta = numbers("xielu.beta"), eps = numbers("xielu.eps");
  for (std::size_t layer = 0; layer < count; ++layer)
    config.xielu.push_back({alpha_p[layer], alpha_n[layer], beta[layer], eps[layer]});
}

void read_smollm3(const GgufFile&, Keys&, ModelConfig& config) {
  for (std::int32_t layer = 0; layer < std::clamp(config.num_layers, 0, 4096); ++layer)
    config.rope_layers.push_back((layer + 1) % 4 != 0);
}

// The file leaves out what all models of the family have alike. Maverick, of 128 experts, alone has no norms
// of queries and keys.
void read_llama4(const GgufFile& file, Keys& keys, ModelConfig& config) {
  constexpr std::int32_t kChunk = 8192;
  read_smollm3(file, keys, config);
  read_layers_with_routers(file, keys, config);
  config.experts.shared_intermediate_size = config.experts.intermediate_size;
  config.query_key_norm = config.experts.count != 128;
  config.temperature_beta = 0.1f;
  config.temperature_positions = kChunk;
  config.sliding_window = kChunk;
  config.window_layers = config.rope_layers;
}

void read_qwen2_moe(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_layers_with_routers(file, keys, config);
  config.experts.shared_gate = true;
}

// key_length is that of a head, or in newer files of the row that is kept, and then that of a head is apart.
void read_latent(Keys& keys, ModelConfig& config) {
  LatentConfig& latent = config.latent;
  const auto size = [&](std::string_view name, std::optional<std::int32_t> otherwise) {
    return std::clamp(keys.integer(name, otherwise), -1, 1 << 20);
  };
  latent.rank = size("attention.kv_lora_rank", std::nullopt);
  if (latent.rank < 1)
    return keys.fail(corrupt_data("GGUF metadata 'attention.kv_lora_rank' is not positive"));
  latent.query_rank = size("attention.q_lora_rank", 0);
  latent.rope_size = std::clamp(config.rotary_size, -1, 1 << 20);
  config.head_size = size("attention.key_length_mla", std::clamp(config.head_size, -1, 1 << 20));
  latent.nope_size = config.head_size - latent.rope_size;
  latent.value_size =
      keys.has("attention.value_length_mla")
          ? size("attention.value_length_mla", std::nullopt)
          : size("attention.value_length", config.num_heads > 0 ? config.hidden_size / config.num_heads : 0);
  config.num_kv_heads = 1;
}

// A stretched rotation scales the products of queries and rows, and by as much less the cosines and sines.
void read_deepseek2(const GgufFile& file, Keys& keys, ModelConfig& config) {
  read_latent(keys, config);
  // Converters leave out how experts are scored where config.json does; corrections are of sigmoids.
  if (!keys.has("expert_gating_func") &&
      std::ranges::any_of(file.tensor_list(), [](const GgufTensor& tensor) {
        return tensor.name.find(".exp_probs_b") != std::string_view::npos;
      }))
    config.experts.score = ExpertScore::sigmoid;
  const float all = keys.number("rope.scaling.yarn_log_multiplier", 0.0f) / 0.1f;  // written as a tenth
  if (config.rope_scaling != RopeScaling::yarn || all == 0 || config.rope_factor <= 1 || config.head_size < 1)
    return;
  const float scale = 0.1f * all * std::log(config.rope_factor) + 1;
  config.attention_scale = scale * scale / std::sqrt(static_cast<float>(config.head_size));
  config.rope_attention_factor = gguf_yarn_scale(keys, 1);
}

// Old files leave out the scales of the first models.
void read_minicpm(const GgufFile&, Keys& keys, ModelConfig& config) {
  if (config.num_layers < 1 || config.hidden_size < 1) return;
  config.embedding_scale = keys.number("embedding_scale", 12.0f);
  config.residual_scale =
      keys.number("residual_scale", 1.4f / std::sqrt(static_cast<float>(config.num_layers)));
  config.logit_scale = 1 / keys.number("logit_scale", static_cast<float>(config.hidden_size) / 256.0f);
}

// The file leaves out what the family's only model has for scales.
void read_minicpm3(const GgufFile&, Keys& keys, ModelConfig& config) {
  read_latent(keys, config);
  if (config.rope_original_positions == 0) config.rope_original_positions = config.max_positions;
  if (config.num_layers < 1 || config.hidden_size < 1) return;
  config.embedding_scale = 12;
  config.residual_scale = 1.4f / std::sqrt(static_cast<float>(config.num_layers));
  config.logit_scale = 256.0f / static_cast<float>(config.hidden_size);
}

constexpr decltype(GgufFamily::own_keys) kStateKeys = {
    "ssm.conv_kernel", "ssm.time_step_rank",      "ssm.group_count",           "ssm.state_size",
    "ssm.inner_size",  "full_attention_interval", "attention.recurrent_layers"};

}  // namespace

std::span<const GgufFamily> gguf_families() {
  static constexpr std::array all = std::to_array<GgufFamily>({
      {.name = "llama",
       .interleaved_rows = true,
       .read = read_layers_with_routers,
       .experts = {.known = true}},
      {.name = "qwen2"},
      {.name = "qwen3"},
      {.name = "qwen2vl"},
      {.name = "qwen3vl", .own_keys = {"n_deepstack_layers"}},
      {.name = "qwen3vlmoe",
       .read = read_layers_with_routers,
       .own_keys = {"n_deepstack_layers"},
       .experts = {.known = true}},
      {.name = "qwen2moe", .read = read_qwen2_moe, .experts = {.known = true, .renormalize = false}},
      {.name = "qwen3moe", .read = read_layers_with_routers, .experts = {.known = true}},
      {.name = "gemma", .activation = "gelu_new"},
      {.name = "gemma2",
       .activation = "gelu_new",
       .read = read_gguf_gemma2,
       .own_keys = {"attn_logit_softcapping", "final_logit_softcapping"}},
      {.name = "gemma3", .activation = "gelu_new", .read = read_gguf_gemma3},
      {.name = "gemma3n",
       .activation = "gelu_new",
       .read = read_gguf_gemma3n,
       .own_keys = {"attention.shared_kv_layers", "final_logit_softcapping",
                    "embedding_length_per_layer_input", "altup.active_idx", "altup.num_inputs",
                    "activation_sparsity_scale"}},
      {.name = "gemma4",
       .activation = "gelu_new",
       .read = read_gguf_gemma4,
       .own_keys = {"rope.dimension_count_swa", "attention.key_length_swa", "attention.value_length_swa",
                    "attention.shared_kv_layers", "final_logit_softcapping",
                    "embedding_length_per_layer_input"},
       .experts = {.known = true}},
      {.name = "granite",
       .interleaved_rows = true,
       .read = read_granite,
       .own_keys = {"embedding_scale", "residual_scale", "logit_scale", "attention.scale", "ssm.conv_kernel",
                    "ssm.time_step_rank", "ssm.group_count", "ssm.state_size", "ssm.inner_size",
                    "expert_shared_feed_forward_length"}},
      {.name = "granite_swa",
       .interleaved_rows = true,
       .read = read_gguf_granite_swa,
       .own_keys = {"embedding_scale", "residual_scale", "logit_scale", "attention.scale",
                    "attention.rope_pattern"}},
      {.name = "olmo",
       .layer_norm = true,
       .interleaved_rows = true,
       .read = read_gguf_olmo,
       .own_keys = {"attention.clamp_kqv"}},
      {.name = "olmo2", .read = read_gguf_olmo2},
      {.name = "phi3"},
      {.name = "phimoe", .read = read_phimoe, .experts = {.known = true, .score = ExpertScore::sparse_mixer}},
      {.name = "smollm3", .interleaved_rows = true, .read = read_smollm3},
      {.name = "mistral3",
       .interleaved_rows = true,
       .read = read_mistral3,
       .own_keys = {"attention.temperature_scale", "attention.temperature_length"}},
      {.name = "chatglm", .interleaved_rows = true, .context_instead_of_width = 131072},
      {.name = "glm4", .interleaved_rows = true, .read = read_glm4},
      {.name = "command-r",
       .layer_norm = true,
       .interleaved_rows = true,
       .parallel = true,
       .read = read_cohere,
       .own_keys = {"logit_scale"}},
      {.name = "cohere2",
       .layer_norm = true,
       .interleaved_rows = true,
       .parallel = true,
       .read = read_cohere,
       .own_keys = {"logit_scale"}},
      {.name = "cohere2moe",
       .layer_norm = true,
       .may_have_rms_norms = true,
       .interleaved_rows = true,
       .parallel = true,
       .read = read_cohere2_moe,
       .own_keys = {"logit_scale"},
       .experts = {.known = true, .score = ExpertScore::sigmoid, .renormalize = false}},
      {.name = "exaone4", .read = read_exaone4},
      {.name = "starcoder2", .activation = "gelu_new", .layer_norm = true},
      {.name = "seed_oss"},
      {.name = "hunyuan-dense"},
      {.name = "ernie4_5", .interleaved_rows = true},
      {.name = "internlm2", .interleaved_rows = true},
      {.name = "exaone"},
      {.name = "minicpm",
       .interleaved_rows = true,
       .read = read_minicpm,
       .own_keys = {"embedding_scale", "residual_scale", "logit_scale"}},
      {.name = "afmoe", .read = read_gguf_afmoe, .experts = {.known = true, .score = ExpertScore::sigmoid}},
      {.name = "laguna",
       .read = read_gguf_laguna,
       .own_keys = {"rope.dimension_count_swa"},
       .experts = {.known = true, .score = ExpertScore::sigmoid}},
      {.name = "mellum", .read = read_gguf_mellum, .experts = {.known = true}},
      {.name = "muse-glimmer",
       .interleaved_rows = true,
       .read = read_muse_glimmer,
       .own_keys = {"logit_scale", "final_logit_softcapping"}},
      {.name = "apertus", .read = read_apertus},
      {.name = "arcee", .activation = "relu2", .interleaved_rows = true},
      {.name = "stablelm", .layer_norm = true, .may_be_parallel = true, .read = read_query_key_norm},
      {.name = "nemotron", .activation = "relu2", .layer_norm = true},
      {.name = "phi2", .activation = "gelu_new", .layer_norm = true, .parallel = true},
      {.name = "gptneox", .activation = "gelu", .layer_norm = true, .may_be_parallel = true},
      {.name = "falcon", .activation = "gelu", .layer_norm = true, .parallel = true, .read = read_falcon},
      {.name = "bloom",
       .activation = "gelu_new",
       .layer_norm = true,
       .rotates = false,
       .context_instead_of_width = 2048,
       .read = read_alibi},
      {.name = "mpt",
       .activation = "gelu",
       .layer_norm = true,
       .rotates = false,
       .read = read_alibi,
       .own_keys = {"attention.max_alibi_bias", "attention.clamp_kqv"}},
      {.name = "bert",
       .activation = "gelu",
       .layer_norm = true,
       .rotates = false,
       .encoder = true,
       .read = read_gguf_bert,
       .own_keys = {"token_type_count", "classifier.output_labels"}},
      {.name = "nomic-bert",
       .layer_norm = true,
       .encoder = true,
       .read = read_gguf_bert,
       .own_keys = {"token_type_count", "moe_every_n_layers"}},
      {.name = "nomic-bert-moe",
       .activation = "gelu",
       .layer_norm = true,
       .encoder = true,
       .read = read_gguf_nomic_bert_moe,
       .own_keys = {"token_type_count", "moe_every_n_layers"},
       .experts = {.known = true, .renormalize = false}},
      {.name = "modern-bert",
       .activation = "gelu",
       .layer_norm = true,
       .encoder = true,
       .read = read_gguf_modern_bert,
       .own_keys = {"hidden_activation", "classifier.output_labels", "token_type_count"}},
      {.name = "gemma-embedding",
       .activation = "gelu_new",
       .encoder = true,
       .read = read_gguf_gemma_embedding,
       .own_keys = {"dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"}},
      {.name = "olmoe", .read = read_layers_with_routers, .experts = {.known = true, .renormalize = false}},
      {.name = "granitemoe",
       .interleaved_rows = true,
       .read = read_granite,
       .own_keys = {"embedding_scale", "residual_scale", "logit_scale", "attention.scale", "ssm.conv_kernel",
                    "ssm.time_step_rank", "ssm.group_count", "ssm.state_size", "ssm.inner_size"},
       .experts = {.known = true, .score = ExpertScore::softmax_of_chosen}},
      {.name = "ernie4_5-moe",
       .interleaved_rows = true,
       .read = read_layers_with_routers,
       .experts = {.known = true}},
      {.name = "glm4moe", .read = read_glm4_moe, .experts = {.known = true, .score = ExpertScore::sigmoid}},
      {.name = "hunyuan-moe", .read = read_layers_with_routers, .experts = {.known = true}},
      {.name = "minimax-m2",
       .read = read_layers_with_routers,
       .experts = {.known = true, .score = ExpertScore::sigmoid}},
      {.name = "gpt-oss",
       .read = read_gpt_oss,
       .experts = {.known = true, .score = ExpertScore::softmax_of_chosen, .renormalize = false}},
      {.name = "llama4",
       .interleaved_rows = true,
       .read = read_llama4,
       .experts = {.known = true, .score = ExpertScore::sigmoid, .renormalize = false}},
      {.name = "bailingmoe2",
       .read = read_layers_with_routers,
       .experts = {.known = true, .score = ExpertScore::sigmoid}},
      {.name = "deepseek2",
       .interleaved_rows = true,
       .latent = true,
       .read = read_deepseek2,
       .own_keys = {"attention.q_lora_rank", "attention.kv_lora_rank", "attention.key_length_mla",
                    "attention.value_length_mla"},
       .experts = {.known = true, .renormalize = false}},
      {.name = "minicpm3",
       .latent = true,
       .read = read_minicpm3,
       .own_keys = {"attention.q_lora_rank", "attention.kv_lora_rank"}},
      {.name = "dots1",
       .read = read_layers_with_routers,
       .experts = {.known = true, .score = ExpertScore::sigmoid, .renormalize = false}},
      {.name = "qwen3next", .read = read_gguf_delta_net, .own_keys = kStateKeys, .experts = {.known = true}},
      {.name = "qwen35", .read = read_gguf_delta_net, .own_keys = kStateKeys},
      {.name = "qwen35moe", .read = read_gguf_delta_net, .own_keys = kStateKeys, .experts = {.known = true}},
      {.name = "granitehybrid",
       .interleaved_rows = true,
       .read = read_gguf_granite_hybrid,
       .own_keys = {"embedding_scale", "residual_scale", "logit_scale", "attention.scale", "ssm.conv_kernel",
                    "ssm.time_step_rank", "ssm.group_count", "ssm.state_size", "ssm.inner_size"},
       .experts = {.known = true, .score = ExpertScore::softmax_of_chosen}},
      {.name = "falcon-h1",
       .read = read_gguf_falcon_h1,
       .own_keys = {"ssm.conv_kernel", "ssm.time_step_rank", "ssm.group_count", "ssm.state_size",
                    "ssm.inner_size", "logit_scale"}},
      {.name = "nemotron_h", .activation = "relu2", .read = read_gguf_nemotron_h, .own_keys = kStateKeys},
      {.name = "nemotron_h_moe",
       .activation = "relu2",
       .read = read_gguf_nemotron_h,
       .own_keys = kStateKeys,
       .experts = {.known = true, .score = ExpertScore::sigmoid}},
      {.name = "lfm2", .read = read_gguf_lfm2, .own_keys = {"shortconv.l_cache"}},
      {.name = "lfm2moe",
       .read = read_gguf_lfm2,
       .own_keys = {"shortconv.l_cache"},
       .experts = {.known = true, .score = ExpertScore::sigmoid}},
      {.name = "gpt2", .activation = "gelu_new", .layer_norm = true, .rotates = false},
  });
  return all;
}

}  // namespace pagoda
