#include "models/families.h"

#include <array>

namespace pagoda {
namespace {

constexpr std::string_view kTransformers = "transformers";

// The place for a new family. Sizes are those of the published config.json.
constexpr std::array kFamilies = std::to_array<ModelFamily>({
    {"Llama 2, 3, 3.1, 3.2, Mistral 7B, Nemo, Small, TinyLlama, SmolLM2, ...", "llama mistral llava", "llama",
     "–", "transformers, the real SmolLM2 135M", "Llama 3.1 8B",
     R"({"model_type":"llama","num_key_value_heads":8,"max_position_embeddings":131072})"},
    {"Qwen 2, 2.5: 0.5B to 72B", "qwen2", "qwen2", "biases", kTransformers, "7B",
     R"({"model_type":"qwen2","hidden_size":3584,"num_hidden_layers":28,"num_attention_heads":28,
         "num_key_value_heads":4})"},
    {"Qwen 3: 0.6B to 32B, text of Qwen3-VL", "qwen3 qwen3_vl_text qwen3_vl", "qwen3 qwen3vl",
     "norms of queries and keys", kTransformers, "8B",
     R"({"model_type":"qwen3","num_hidden_layers":36,"num_key_value_heads":8})"},
    {"Qwen 3 MoE: 30B-A3B, Coder", "qwen3_moe", "qwen3moe", "Qwen 3 with mixtures of experts", kTransformers,
     "30B-A3B", R"({"model_type":"qwen3_moe","num_hidden_layers":48,"head_dim":128})"},
    {"Qwen 1.5 MoE, 2 57B-A14B", "qwen2_moe", "qwen2moe", "Qwen 2 with mixtures, a gated shared expert",
     kTransformers, "A2.7B", R"({"model_type":"qwen2_moe"})"},
    {.name = "Mixtral 8x7B, 8x22B",
     .model_types = "mixtral",
     .gguf = "llama",
     .differs = "mixtures of experts; in GGUF stacked, or one by one as old files have them",
     .checked = kTransformers,
     .size = "8x7B",
     .config = R"({"model_type":"mixtral"})",
     .only_experts = true},
    {"OLMoE 7B-A1B", "olmoe", "olmoe", "mixtures, norms of all heads together; one rank only", kTransformers,
     "7B-A1B", R"({"model_type":"olmoe"})"},
    {"Granite 3 MoE: 1B-A400M, 3B-A800M", "granitemoe granitemoeshared", "granitemoe",
     "Granite with mixtures", kTransformers, "3B-A800M",
     R"({"model_type":"granitemoe","hidden_size":1536,"num_attention_heads":24,"num_key_value_heads":8})"},
    {"ERNIE 4.5 MoE: 21B-A3B", "ernie4_5_moe", "ernie4_5-moe",
     "mixtures behind dense layers, adjacent pairs rotate", kTransformers, "21B-A3B",
     R"({"model_type":"ernie4_5_moe"})"},
    {"GLM 4.5, 4.5-Air, 4.6", "glm4_moe", "glm4moe",
     "sigmoid routing with a correction and groups, partial rotation", kTransformers, "4.5-Air",
     R"({"model_type":"glm4_moe","head_dim":128})"},
    {"Ling, Ring 2: mini 16B-A1.4B", "bailing_moe", "bailingmoe2",
     "query, key and value in one matrix, half of each head rotates, norms of queries and keys, the same "
     "routing",
     "transformers' GLM 4.5 on the same numbers", "mini", R"({"model_type":"bailing_moe"})"},
    {"DeepSeek V2, V2-Lite, Coder-V2, V3, R1, Moonlight, GLM-4.7-Flash", "deepseek_v2 deepseek_v3 glm4_moe_lite",
     "deepseek2",
     "latent attention; mixtures behind dense layers, shared experts, routing by softmax, in groups or not; V3 and "
     "later: GLM 4.5's routing",
     kTransformers, "V2-Lite",
     R"({"model_type":"deepseek_v2","hidden_size":2048,"num_hidden_layers":27,"num_attention_heads":16,
         "q_lora_rank":null,"n_routed_experts":64,"num_experts_per_tok":6,"n_group":1,"topk_group":1,
         "topk_method":"greedy"})"},
    {"MiniCPM 3 4B", "minicpm3", "minicpm3", "latent attention, three scales, longrope", kTransformers, "4B",
     R"({"model_type":"minicpm3"})"},
    {"LFM2, LFM2.5: 350M to 2.6B, 8B-A1B", "lfm2 lfm2_moe", "lfm2 lfm2moe",
     "a short convolution in most layers, norms of queries and keys, 8B: mixtures; one rank only", kTransformers,
     "2.6B", R"({"model_type":"lfm2"})"},
    {"dots.llm1", "dots1", "dots1", "Qwen 3 with the same routing and shared experts", kTransformers,
     "142B-A14B",
     R"({"model_type":"dots1","hidden_size":4096,"n_routed_experts":128,"num_experts_per_tok":6})"},
    {"Hunyuan MoE: A13B", "hunyuan_v1_moe", "hunyuan-moe", "mixtures, norms behind the rotation",
     kTransformers, "80B-A13B",
     R"({"model_type":"hunyuan_v1_moe","num_key_value_heads":8,"num_experts":64,"moe_topk":8})"},
    {"MiniMax M2", "minimax_m2", "minimax-m2",
     "sigmoid routing with a correction, norms of all heads together; one rank only", kTransformers,
     "230B-A10B", R"({"model_type":"minimax_m2"})"},
    {.name = "gpt-oss: 20B, 120B",
     .model_types = "gpt_oss",
     .gguf = "gpt-oss",
     .differs = "mixtures with biases, gates and ups cut off at 7, a sink for each head, windows in every "
                "second layer, "
                "YaRN",
     .checked = kTransformers,
     .size = "20B",
     .config = R"({"model_type":"gpt_oss","num_hidden_layers":24})",
     .note = "experts in MXFP4 or as values"},
    {"Llama 4: Scout, Maverick (text)", "llama4 llama4_text", "llama4",
     "mixtures weighed before the expert, norms without weights, chunks of 8192 tokens but for every fourth "
     "layer, "
     "which does not rotate",
     kTransformers, "Scout", R"({"model_type":"llama4_text"})"},
    {"Gemma 1: 2B, 7B", "gemma", "gemma", "scaled embedding, GELU", kTransformers, "7B",
     R"({"model_type":"gemma"})"},
    {"Gemma 2: 2B, 9B, 27B", "gemma2", "gemma2",
     "soft caps of scores and logits, norms on both sides of each half, windows in every second layer",
     kTransformers, "9B",
     R"({"model_type":"gemma2","num_hidden_layers":42,"num_attention_heads":16,"num_key_value_heads":8})"},
    {"Gemma 3: 270M to 27B (text)", "gemma3 gemma3_text", "gemma3",
     "norms on both sides of each half, two rotations, windows in five of six layers, scaled embedding",
     "transformers, the real 270M", "4B",
     R"({"model_type":"gemma3_text","num_hidden_layers":34,"sliding_window":1024})"},
    {"Gemma 4: E2B, E4B, 12B, 26B-A4B, 31B (text)", "gemma4 gemma4_text gemma4_unified gemma4_unified_text",
     "gemma4",
     "Gemma 3 with two head sizes, values that are normed and may be the keys, layers that read earlier "
     "ones' keys "
     "and values, inputs of layers, a mixture beside each dense feed-forward",
     kTransformers, "26B-A4B",
     R"({"model_type":"gemma4_text","num_hidden_layers":30,"num_attention_heads":16,"num_key_value_heads":8,
         "attention_k_eq_v":true,"num_global_key_value_heads":2,"sliding_window":1024})"},
    {"Phi 3, 3.5, 4", "phi3", "phi3", "fused matrices, window, longrope", kTransformers, "Phi 4 14B",
     R"({"model_type":"phi3","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40,
         "num_key_value_heads":10,"max_position_embeddings":16384})"},
    {"Ministral 3: 3B, 8B, 14B, Mistral Small 3.1 and later (text)", "ministral3 mistral3", "mistral3",
     "YaRN, queries that grow with the position", kTransformers, "8B", R"({"model_type":"ministral3"})"},
    {"GLM 4: 9B, 32B, 0414", "glm glm4", "chatglm glm4",
     "adjacent pairs in half of each head, fused gate and up; 0414: norms on both sides of each half",
     kTransformers, "9B", R"({"model_type":"glm"})"},
    {"Command R, R+, R7B, A, Aya", "cohere cohere2", "command-r cohere2",
     "layer norms, both halves see the same, adjacent pairs; R+: a norm of every head's own; R7B, A: "
     "windows, which "
     "alone rotate",
     kTransformers, "R7B",
     R"({"model_type":"cohere2","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,
         "num_key_value_heads":8,"max_position_embeddings":132096})"},
    {"EXAONE 4: 1.2B, 32B", "exaone4", "exaone4", "norms behind each half, windows, which alone rotate",
     kTransformers, "32B",
     R"({"model_type":"exaone4","hidden_size":5120,"num_hidden_layers":64,"num_attention_heads":40,
         "num_key_value_heads":8,"max_position_embeddings":131072})"},
    {"InternLM 2, 2.5", "internlm2", "internlm2", "query, key and value in one matrix",
     "transformers' Llama on the same numbers", "7B",
     R"({"model_type":"internlm2","num_key_value_heads":8})"},
    {"Seed-OSS 36B", "seed_oss", "seed_oss", "biases", kTransformers, "36B", R"({"model_type":"seed_oss"})"},
    {"Hunyuan: 0.5B to 7B, HY-MT", "hunyuan_v1_dense", "hunyuan-dense",
     "norms of queries and keys behind the rotation", kTransformers, "7B",
     R"({"model_type":"hunyuan_v1_dense","num_key_value_heads":8})"},
    {"ERNIE 4.5: 0.3B", "ernie4_5", "ernie4_5", "adjacent pairs", kTransformers, "0.3B",
     R"({"model_type":"ernie4_5"})"},
    {"StarCoder 2: 3B, 7B, 15B", "starcoder2", "starcoder2", "layer norms, biases, plain MLP, window",
     kTransformers, "7B",
     R"({"model_type":"starcoder2","hidden_size":4608,"num_hidden_layers":32,"num_attention_heads":36,
         "num_key_value_heads":4,"max_position_embeddings":16384,"sliding_window":4096})"},
    {"Apertus 8B, 70B", "apertus", "apertus", "norms of queries and keys, plain MLP of xIELU", kTransformers,
     "8B", R"({"model_type":"apertus","num_key_value_heads":8})"},
    {"Arcee AFM 4.5B", "arcee", "arcee", "plain MLP of squared ReLU", kTransformers, "4.5B",
     R"({"model_type":"arcee","num_hidden_layers":36,"num_attention_heads":20,"num_key_value_heads":4})"},
    {"StableLM 2: 1.6B, 12B", "stablelm", "stablelm",
     "layer norms, a quarter of each head rotates; 12B: both halves see the same, a norm of every head's own",
     kTransformers, "1.6B", R"({"model_type":"stablelm","hidden_size":2048,"num_hidden_layers":24})"},
    {"Nemotron 3, 4, Minitron (dense)", "nemotron", "nemotron",
     "layer norms, squared ReLU, half of each head rotates", kTransformers, "Minitron 4B",
     R"({"model_type":"nemotron","hidden_size":3072,"num_attention_heads":24,"num_key_value_heads":8})"},
    {"Phi 1, 1.5, 2", "phi", "phi2", "layer norms, both halves see the same, biases", kTransformers, "2.7B",
     R"({"model_type":"phi","hidden_size":2560,"num_hidden_layers":32})"},
    {"GPT-NeoX, Pythia", "gpt_neox", "gptneox", "the same, a quarter of each head rotates", kTransformers,
     "Pythia 6.9B", R"({"model_type":"gpt_neox","hidden_size":4096,"num_hidden_layers":32,
                        "num_attention_heads":32})"},
    {"GPT-J 6B", "gptj", "", "the same, adjacent pairs", kTransformers, "6B", R"({"model_type":"gptj"})"},
    {"Falcon: 7B, 40B, 180B", "falcon", "falcon", "the same, few key-value heads. Not RW (ALiBi)",
     kTransformers, "7B", R"({"model_type":"falcon"})"},
    {"BLOOM, MPT", "bloom mpt", "bloom mpt", "layer norms, ALiBi", kTransformers, "MPT 7B",
     R"({"model_type":"mpt","d_model":4096,"n_layers":32,"n_heads":32})"},
    {"Granite 3: 2B, 8B", "granite", "granite", "four scales", kTransformers, "8B",
     R"({"model_type":"granite","num_hidden_layers":40,"num_key_value_heads":8})"},
    {"OLMo 2, 3: 1B to 32B", "olmo2 olmo3", "olmo2",
     "norms behind each half, of all heads together; one rank only; 3: windows", kTransformers, "3 7B",
     R"({"model_type":"olmo3","max_position_embeddings":65536})"},
    {"SmolLM3 3B", "smollm3", "smollm3", "every fourth layer does not rotate", "own reference in numpy", "3B",
     R"({"model_type":"smollm3"})"},
    {"GPT-2", "gpt2", "gpt2", "layer norm, learned positions", kTransformers, "124M",
     R"({"model_type":"gpt2"})"},
    {"OPT: 125M to 66B", "opt", "", "layer norm, learned positions, ReLU", kTransformers, "13B",
     R"({"model_type":"opt","hidden_size":5120,"num_hidden_layers":40,"num_attention_heads":40})"},

    {.name = "BERT: bge, MiniLM, mxbai, arctic-embed, ms-marco cross-encoders",
     .model_types = "bert",
     .gguf = "bert",
     .differs = "learned positions, token types, norms behind each half",
     .checked = "transformers: first, mean, last; pairs through a head. GGUF: not tried against an oracle",
     .vectors = true},
    {.name = "RoBERTa, XLM-R: e5-multilingual, bge-m3 (dense), bge-reranker-v2-m3",
     .model_types = "roberta xlm-roberta",
     .gguf = "",
     .differs = "BERT with positions from behind the padding's",
     .checked = kTransformers,
     .vectors = true},
    {.name = "NomicBERT: nomic-embed-text v1.5",
     .model_types = "nomic_bert",
     .gguf = "nomic-bert",
     .differs = "rotation, gated SiLU",
     .checked = "transformers, under the hub's names. GGUF: not tried against an oracle",
     .vectors = true},
    {.name = "ModernBERT: gte-modernbert, granite-embedding-r2",
     .model_types = "modernbert",
     .gguf = "",
     .differs = "norms before each half, two rotations, windows to both sides",
     .checked = kTransformers,
     .vectors = true},
    {.name = "EmbeddingGemma",
     .model_types = "",
     .gguf = "",
     .differs = "Gemma 3, windows to both sides",
     .checked = "transformers, without its Dense modules",
     .vectors = true,
     .note = "Gemma3TextModel with `use_bidirectional_attention`"},
    {.name = "Qwen3-Embedding, Qwen3-Reranker, and all decoders above",
     .model_types = "",
     .gguf = "",
     .differs = "the last token's state, a head, or two answers' rows",
     .checked = "transformers: Qwen 3",
     .vectors = true,
     .note = "…ForCausalLM, …ForSequenceClassification; GGUF: `pooling_type`, `cls.output`"},
});

}  // namespace

std::span<const ModelFamily> model_families() { return kFamilies; }

bool is_one_of(std::string_view name, std::string_view names) {
  while (!names.empty()) {
    const std::size_t end = names.find(' ');
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(end == names.npos ? names.size() : end + 1);
  }
  return false;
}

const ModelFamily* family_of(const ModelConfig& config) {
  const bool experts = config.experts.count > 0;
  const ModelFamily* found = nullptr;
  for (const ModelFamily& family : kFamilies) {
    if (!is_one_of(config.family, family.model_types) && !is_one_of(config.family, family.gguf)) continue;
    if (found == nullptr || (experts && family.only_experts)) found = &family;
  }
  return found;
}

}  // namespace pagoda
