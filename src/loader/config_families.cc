#include "loader/config_families.h"

#include <algorithm>
#include <array>

namespace pagoda {

std::span<const ConfigFamily> config_families() {
  static constexpr std::array all = std::to_array<ConfigFamily>({
      {"LlamaForCausalLM", "LlamaModel", "llama", "llama", read_llama_like},
      {"MistralForCausalLM", "MistralModel", "mistral", "mistral", read_llama_like},
      {"Qwen2ForCausalLM", "Qwen2Model", "qwen2", "qwen2", read_llama_like},
      {"Qwen3ForCausalLM", "Qwen3Model", "qwen3", "qwen3", read_llama_like},
      {"GemmaForCausalLM", "GemmaModel", "gemma", "gemma", read_gemma},
      {"Gemma2ForCausalLM", "Gemma2Model", "gemma2", "gemma2", read_gemma2},
      {"Qwen2MoeForCausalLM", "Qwen2MoeModel", "qwen2_moe", "qwen2moe", read_qwen2_moe},
      {"Qwen3MoeForCausalLM", "Qwen3MoeModel", "qwen3_moe", "qwen3moe", read_qwen3_moe},
      {"MixtralForCausalLM", "MixtralModel", "mixtral", "mixtral", read_mixtral},
      {"OlmoeForCausalLM", "OlmoeModel", "olmoe", "olmoe", read_olmoe},
      {"GraniteMoeForCausalLM", "GraniteMoeModel", "granitemoe", "granitemoe", read_granite_moe},
      {"GraniteMoeSharedForCausalLM", "GraniteMoeSharedModel", "granitemoeshared", "granitemoe",
       read_granite_moe},
      {"Ernie4_5_MoeForCausalLM", "Ernie4_5_MoeModel", "ernie4_5_moe", "ernie4_5-moe", read_ernie4_5_moe},
      {"Glm4MoeForCausalLM", "Glm4MoeModel", "glm4_moe", "glm4moe", read_glm4_moe},
      {"HunYuanMoEV1ForCausalLM", "HunYuanMoEV1Model", "hunyuan_v1_moe", "hunyuan-moe", read_hunyuan_moe},
      {"MiniMaxM2ForCausalLM", "MiniMaxM2Model", "minimax_m2", "minimax-m2", read_minimax_m2},
      {"DeepseekV2ForCausalLM", "DeepseekV2Model", "deepseek_v2", "deepseek2", read_deepseek_v2},
      {"DeepseekV3ForCausalLM", "DeepseekV3Model", "deepseek_v3", "deepseek2", read_deepseek_v3},
      {"Glm4MoeLiteForCausalLM", "Glm4MoeLiteModel", "glm4_moe_lite", "deepseek2", read_glm4_moe_lite},
      {"MiniCPM3ForCausalLM", "MiniCPM3Model", "minicpm3", "minicpm3", read_minicpm3},
      {"Dots1ForCausalLM", "Dots1Model", "dots1", "dots1", read_dots1},
      {"Qwen3NextForCausalLM", "Qwen3NextModel", "qwen3_next", "qwen3next", read_qwen3_next},
      {"Qwen3_5ForCausalLM", "Qwen3_5TextModel", "qwen3_5_text", "qwen35", read_qwen3_5},
      {"Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextModel", "qwen3_5_moe_text", "qwen35moe", read_qwen3_5_moe},
      {"GraniteMoeHybridForCausalLM", "GraniteMoeHybridModel", "granitemoehybrid", "granitehybrid",
       read_granite_hybrid},
      {"FalconH1ForCausalLM", "FalconH1Model", "falcon_h1", "falcon-h1", read_falcon_h1},
      {"NemotronHForCausalLM", "NemotronHModel", "nemotron_h", "nemotron_h", read_nemotron_h},
      {"Lfm2ForCausalLM", "Lfm2Model", "lfm2", "lfm2", read_lfm2},
      {"Lfm2MoeForCausalLM", "Lfm2MoeModel", "lfm2_moe", "lfm2moe", read_lfm2_moe},
      {.hf_name = "GptOssForCausalLM",
       .base_name = "GptOssModel",
       .model_type = "gpt_oss",
       .name = "gpt-oss",
       .read = read_gpt_oss,
       .mxfp4 = true},
      {"Gemma3ForCausalLM", "Gemma3TextModel", "gemma3_text", "gemma3", read_gemma3},
      {"Gemma4ForCausalLM", "Gemma4TextModel", "gemma4_text", "gemma4", read_gemma4},
      {"Gemma4UnifiedForCausalLM", "Gemma4UnifiedTextModel", "gemma4_unified_text", "gemma4", read_gemma4},
      {"GraniteForCausalLM", "GraniteModel", "granite", "granite", read_granite},
      {"Olmo2ForCausalLM", "Olmo2Model", "olmo2", "olmo2", read_olmo2},
      {"Olmo3ForCausalLM", "Olmo3Model", "olmo3", "olmo2", read_olmo3},
      {"Phi3ForCausalLM", "Phi3Model", "phi3", "phi3", read_phi3},
      {"SmolLM3ForCausalLM", "SmolLM3Model", "smollm3", "smollm3", read_smollm3},
      {"Ministral3ForCausalLM", "Ministral3Model", "ministral3", "mistral3", read_ministral3},
      {"GlmForCausalLM", "GlmModel", "glm", "glm", read_glm},
      {"Glm4ForCausalLM", "Glm4Model", "glm4", "glm4", read_glm},
      {"CohereForCausalLM", "CohereModel", "cohere", "cohere", read_cohere},
      {"Cohere2ForCausalLM", "Cohere2Model", "cohere2", "cohere2", read_cohere2},
      {"Exaone4ForCausalLM", "Exaone4Model", "exaone4", "exaone4", read_exaone4},
      {"Starcoder2ForCausalLM", "Starcoder2Model", "starcoder2", "starcoder2", read_starcoder2},
      {"SeedOssForCausalLM", "SeedOssModel", "seed_oss", "seed_oss", read_seed_oss},
      {"HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Model", "hunyuan_v1_dense", "hunyuan-dense", read_hunyuan},
      {"Ernie4_5ForCausalLM", "Ernie4_5Model", "ernie4_5", "ernie4_5", read_ernie4_5},
      {"InternLM2ForCausalLM", "InternLM2Model", "internlm2", "internlm2", read_internlm2},
      {"ApertusForCausalLM", "ApertusModel", "apertus", "apertus", read_apertus},
      {"ArceeForCausalLM", "ArceeModel", "arcee", "arcee", read_arcee},
      {"StableLmForCausalLM", "StableLmModel", "stablelm", "stablelm", read_stablelm},
      {"NemotronForCausalLM", "NemotronModel", "nemotron", "nemotron", read_nemotron},
      {"PhiForCausalLM", "PhiModel", "phi", "phi2", read_phi},
      {"GPTNeoXForCausalLM", "GPTNeoXModel", "gpt_neox", "gptneox", read_gpt_neox},
      {"GPTJForCausalLM", "GPTJModel", "gptj", "gptj", read_gptj},
      {"FalconForCausalLM", "FalconModel", "falcon", "falcon", read_falcon},
      {"BloomForCausalLM", "BloomModel", "bloom", "bloom", read_bloom},
      {"MptForCausalLM", "MptModel", "mpt", "mpt", read_mpt},
      {"OPTForCausalLM", "OPTModel", "opt", "opt", read_opt},
      {"GPT2LMHeadModel", "GPT2Model", "gpt2", "gpt2", read_gpt2},
      // Encoders.
      {"BertForMaskedLM", "BertModel", "bert", "bert", read_bert},
      {"RobertaForMaskedLM", "RobertaModel", "roberta", "bert", read_roberta},
      {"XLMRobertaForMaskedLM", "XLMRobertaModel", "xlm-roberta", "bert", read_roberta},
      {"NomicBertForMaskedLM", "NomicBertModel", "nomic_bert", "nomic-bert", read_nomic_bert},
      {"ModernBertForMaskedLM", "ModernBertModel", "modernbert", "modern-bert", read_modern_bert},
      // The text parts of models that also see, and those models: their text_config says which part it is.
      {"Qwen3VLTextForCausalLM", "Qwen3VLTextModel", "qwen3_vl_text", "qwen3", read_llama_like},
      {"Gemma3ForConditionalGeneration", "Gemma3Model", "gemma3", "gemma3", read_gemma3, true},
      {"BailingMoeV2ForCausalLM", "BailingMoeV2Model", "bailing_moe", "bailingmoe2", read_bailing_moe2},
      {"Llama4ForCausalLM", "Llama4TextModel", "llama4_text", "llama4", read_llama4},
      {"Llama4ForConditionalGeneration", "Llama4Model", "llama4", "llama4", read_llama4, true},
      {"Gemma4ForConditionalGeneration", "Gemma4Model", "gemma4", "gemma4", read_gemma4, true},
      {"Gemma4UnifiedForConditionalGeneration", "Gemma4UnifiedModel", "gemma4_unified", "gemma4", read_gemma4,
       true},
      {"Mistral3ForConditionalGeneration", "Mistral3Model", "mistral3", "mistral", read_llama_like, true},
      {"LlavaForConditionalGeneration", "LlavaModel", "llava", "llama", read_llama_like, true},
      {"Qwen3_5ForConditionalGeneration", "Qwen3_5Model", "qwen3_5", "qwen35", read_qwen3_5, true},
      {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeModel", "qwen3_5_moe", "qwen35moe", read_qwen3_5_moe,
       true},
      {"Qwen3VLForConditionalGeneration", "Qwen3VLModel", "qwen3_vl", "qwen3", read_llama_like, true},
  });
  return all;
}

namespace {
bool family_has_chunks(const ModelConfig& config) { return config.architecture == "llama4"; }
}  // namespace

bool read_layer_types(Fields& fields, ModelConfig& config) {
  const json::value* types = fields.find("layer_types");
  if (types == nullptr) return false;
  config.window_layers.clear();
  const json::array* list = types->if_array();
  if (list == nullptr || static_cast<std::int64_t>(list->size()) != config.num_layers) {
    fields.fail("layer_types", "a list with one entry for each layer");
    return true;
  }
  for (const json::value& type : *list) {
    const bool sliding =
        type == "sliding_attention" || (type == "chunked_attention" && family_has_chunks(config));
    if (!sliding && type != "full_attention" && type != "attention") {
      fields.refuse(concat("config.json: layer type ", show(type),
                           " is not supported; supported: full_attention, sliding_attention"));
    }
    config.window_layers.push_back(sliding);
  }
  return true;
}

void read_window_pattern(Fields& fields, ModelConfig& config, std::int32_t period) {
  if (!read_layer_types(fields, config)) {
    period = fields.integer("sliding_window_pattern", fields.integer("_sliding_window_pattern", period));
    if (period < 1) return fields.fail("sliding_window_pattern", "a positive integer");
    for (std::int32_t layer = 0; layer < listed_layers(config); ++layer)
      config.window_layers.push_back((layer + 1) % period != 0);
  }
  finish_windows(fields, config);
}

void finish_windows(Fields& fields, ModelConfig& config) {
  const bool any =
      std::find(config.window_layers.begin(), config.window_layers.end(), true) != config.window_layers.end();
  if (any && config.sliding_window == 0) fields.fail("sliding_window", "given for sliding layers");
  if (!any) config.sliding_window = 0;
  if (config.sliding_window == 0) config.window_layers.clear();
}

std::int32_t listed_layers(const ModelConfig& config) { return std::clamp(config.num_layers, 0, 4096); }

}  // namespace pagoda
