// Models that also see or hear. One rule for all: config.json keeps the language model's fields in an object
// of their own, whose model_type is that of a family; where it does not say, or lies flat beside the others,
// the row here does. Wrappers without a row are run by the same rule. Source: the defaults of transformers 5.
#include <array>
#include <utility>

#include "loader/config_families.h"

namespace pagoda {

std::span<const ConfigWrapper> config_wrappers() {
  static constexpr std::array all = std::to_array<ConfigWrapper>({
      {"AyaVisionForConditionalGeneration", "aya_vision", "cohere2"},
      {"Cohere2VisionForConditionalGeneration", "cohere2_vision", "cohere2"},
      {"DeepseekVLForConditionalGeneration", "deepseek_vl", "llama"},
      {"Exaone4_5_ForConditionalGeneration", "exaone4_5", "exaone4"},
      {"FastVlmForConditionalGeneration", "fast_vlm", "qwen2"},
      {"Gemma3ForConditionalGeneration", "gemma3", "gemma3_text"},
      {"Gemma3nForConditionalGeneration", "gemma3n", "gemma3n_text"},
      {"Gemma4ForConditionalGeneration", "gemma4", "gemma4_text"},
      {"Gemma4UnifiedForConditionalGeneration", "gemma4_unified", "gemma4_unified_text"},
      {"Glm46VForConditionalGeneration", "glm46v", "glm4v_text"},
      {"Glm4vForConditionalGeneration", "glm4v", "glm4v_text"},
      {"Glm4vMoeForConditionalGeneration", "glm4v_moe", "glm4v_moe_text"},
      {"GotOcr2ForConditionalGeneration", "got_ocr2", "qwen2"},
      {"GraniteSpeechForConditionalGeneration", "granite_speech", "granite"},
      {"Idefics2ForConditionalGeneration", "idefics2", "mistral"},
      {"Idefics3ForConditionalGeneration", "idefics3", "llama"},
      {"InternVLChatModel", "internvl_chat", "qwen2"},
      {"InternVLForConditionalGeneration", "internvl", "qwen2"},
      {"JanusForConditionalGeneration", "janus", "llama"},
      {"Kimi_K25ForConditionalGeneration", "kimi_k25", "deepseek_v3"},
      {"Lfm2VlForConditionalGeneration", "lfm2_vl", "lfm2"},
      {"LightOnOcrForConditionalGeneration", "lighton_ocr", "qwen3"},
      {"Llama4ForConditionalGeneration", "llama4", "llama4_text"},
      {"LlavaForConditionalGeneration", "llava", "llama"},
      {"LlavaNextForConditionalGeneration", "llava_next", "llama"},
      {"LlavaNextVideoForConditionalGeneration", "llava_next_video", "llama"},
      {"LlavaOnevisionForConditionalGeneration", "llava_onevision", "qwen2"},
      {"MiniCPMV4_6ForConditionalGeneration", "minicpmv4_6", "qwen3_5_text"},
      {"Mistral3ForConditionalGeneration", "mistral3", "mistral"},
      {"MuseGlimmerForConditionalGeneration", "muse_glimmer", "muse_glimmer_text"},
      {"Ovis2ForConditionalGeneration", "ovis2", "qwen2"},
      {"PerceptionLMForConditionalGeneration", "perception_lm", "llama"},
      {"Qwen2AudioForConditionalGeneration", "qwen2_audio", "qwen2"},
      {"Qwen2VLForConditionalGeneration", "qwen2_vl", "qwen2_vl_text"},
      {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "qwen2_5_vl_text"},
      {"Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text"},
      {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", "qwen3_vl_moe_text"},
      {"Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text"},
      {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "qwen3_5_moe_text"},
      {"SmolVLMForConditionalGeneration", "smolvlm", "llama"},
      {"VideoLlama3ForConditionalGeneration", "video_llama_3", "qwen2"},
      {"VideoLlavaForConditionalGeneration", "video_llava", "llama"},
      {"VipLlavaForConditionalGeneration", "vipllava", "llama"},
      {"VoxtralForConditionalGeneration", "voxtral", "llama"},
  });
  return all;
}

bool names_wrapper(std::string_view name, const ConfigWrapper& wrapper) {
  constexpr std::string_view kHead = "ForConditionalGeneration", kBase = "Model";
  if (name == wrapper.class_name) return true;
  std::string_view stem = wrapper.class_name;
  if (!stem.ends_with(kHead) || !name.ends_with(kBase)) return false;
  stem.remove_suffix(kHead.size());
  name.remove_suffix(kBase.size());
  return name == stem;
}

const json::object* language_part(const json::object& config) {
  for (const std::string_view name : {"text_config", "llm_config", "language_config"}) {
    const json::value* const part = config.if_contains(name);
    if (part == nullptr || !part->is_object()) continue;
    const json::object* const inner = language_part(part->get_object());  // as deep as the parser allows
    return inner != nullptr ? inner : &part->get_object();
  }
  return nullptr;
}

json::object* language_part(json::object& config) {
  return const_cast<json::object*>(language_part(std::as_const(config)));
}

}  // namespace pagoda
