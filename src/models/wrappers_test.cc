// Goal: the language model of one that also sees or hears is read by one rule, wherever config.json has it;
// and configs as hubs have them are read without a warning of options that are understood or without effect.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "models/read_config.h"

namespace pagoda {
namespace {

constexpr const char* kSizes = R"("hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,)"
                               R"("num_key_value_heads":2,"intermediate_size":96,"vocab_size":160)";

std::string refused(const std::string& text) {
  const auto config = read_config_json(text);
  return config ? "" : config.error().message();
}

TEST(Wrappers, TheTextPartSaysWhatItIs) {
  const struct {
    std::string architecture, model_type, where, text_type, expected;
  } rows[] = {
      {"SmolVLMForConditionalGeneration", "smolvlm", "text_config", "llama", "llama"},
      {"InternVLForConditionalGeneration", "internvl", "text_config", "qwen3", "qwen3"},
      {"InternVLChatModel", "internvl_chat", "llm_config", "qwen2", "qwen2"},
      {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "text_config", "qwen2_5_vl_text", "qwen2"},
      {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", "text_config", "qwen3_vl_moe_text",
       "qwen3vlmoe"},
      {"Lfm2VlForConditionalGeneration", "lfm2_vl", "text_config", "lfm2", "lfm2"},
      {"KimiK25ForConditionalGeneration", "kimi_k25", "text_config", "kimi_k2", "deepseek2"},
      {"NobodyKnowsForConditionalGeneration", "nobody_knows", "language_config", "granite", "granite"},
      // Absent: the wrapper's default.
      {"Idefics3ForConditionalGeneration", "idefics3", "text_config", "", "llama"},
      {"Gemma3ForConditionalGeneration", "gemma3", "text_config", "", "gemma3"},
      {"Gemma3Model", "gemma3", "text_config", "", "gemma3"},
      {"", "llava_onevision", "text_config", "", "qwen2"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.architecture + " " + row.text_type);
    const std::string type = row.text_type.empty() ? "" : R"("model_type":")" + row.text_type + "\",";
    const std::string name =
        row.architecture.empty() ? "" : R"("architectures":[")" + row.architecture + "\"],";
    const auto config = read_config_json("{" + name + R"("model_type":")" + row.model_type +
                                         R"(","image_token_id":7,"vision_config":{},")" + row.where + "\":{" +
                                         type + kSizes + "}}");
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->architecture, row.expected);
    EXPECT_EQ(config->decoder.hidden_size, 64);
    EXPECT_TRUE(config->decoder.tied_head) << "nobody says it: the tensors do";
    EXPECT_TRUE(config->unknown_options.empty()) << config->unknown_options.front();
  }
}

TEST(Wrappers, FieldsMayLieBesideTheRest) {
  const auto config = read_config_json(
      std::string(R"({"architectures":["Qwen2VLForConditionalGeneration"],"model_type":"qwen2_vl",)") +
      kSizes +
      R"(,"rope_scaling":{"type":"mrope","mrope_section":[2,3,3]},"vision_start_token_id":5,"vision_config":{}})");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->architecture, "qwen2");
  EXPECT_FLOAT_EQ(config->decoder.ropes.front().theta, 1e6f);
  EXPECT_FALSE(config->decoder.tied_head);
  EXPECT_TRUE(config->unknown_options.empty()) << config->unknown_options.front();
  for (const std::string part : {"", R"(,"text_config":{})", R"(,"text_config":null)"})
    EXPECT_NE(refused(R"({"model_type":"internvl")" + part + "}").find("'text_config' must be given"),
              std::string::npos);
}

// Programs that write a part for every model leave it empty where it says nothing.
TEST(Wrappers, AnEmptyPartIsNone) {
  const auto config =
      read_config_json(std::string(R"({"architectures":["LlamaForCausalLM"],"model_type":"llama",)") +
                       kSizes + R"(,"text_config":{}})");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->architecture, "llama");
}

TEST(Wrappers, TheWholeDecidesOfTheHead) {
  const auto tied = [](const std::string& whole, const std::string& text) {
    const auto config =
        read_config_json(R"({"model_type":"mistral3","text_config":{"model_type":"mistral",)" +
                         std::string(kSizes) + text + "}" + whole + "}");
    return config && config->decoder.tied_head;
  };
  EXPECT_TRUE(tied("", ""));
  EXPECT_TRUE(tied("", R"(,"tie_word_embeddings":true)"));
  EXPECT_FALSE(tied("", R"(,"tie_word_embeddings":false)"));
  EXPECT_FALSE(tied(R"(,"tie_word_embeddings":false)", R"(,"tie_word_embeddings":true)"));
}

TEST(Wrappers, WhatTheRuleDoesNotReach) {
  const auto wrapper = [](const std::string& name, const std::string& type) {
    return refused(R"({"architectures":[")" + name + R"("],"model_type":"x","text_config":{"model_type":")" +
                   type + "\"}}");
  };
  // A prompt that is read to both sides; another model's drafts; an encoder; a family that is not there.
  EXPECT_NE(wrapper("PaliGemmaForConditionalGeneration", "gemma").find("'PaliGemmaForConditionalGeneration'"),
            std::string::npos);
  EXPECT_NE(wrapper("Gemma4UnifiedAssistantForCausalLM", "gemma4_unified_text"), "");
  EXPECT_NE(wrapper("ModernVBertModel", "modernbert").find("text encoder ('modernbert')"), std::string::npos);
  EXPECT_NE(wrapper("MllamaForConditionalGeneration", "mllama_text_model")
                .find("text_config 'mllama_text_model' of MllamaForConditionalGeneration"),
            std::string::npos);
}

TEST(Architectures, ARefusalNamesTheNearest) {
  const auto name = [](const std::string& given) {
    return refused(R"({"architectures":[")" + given + "\"]}");
  };
  EXPECT_NE(name("Qwen4ForCausalLM").find("the nearest that is: Qwen"), std::string::npos);
  EXPECT_NE(name("DeepseekV32ForCausalLM").find("the nearest that is: DeepseekV"), std::string::npos);
  EXPECT_NE(name("llama3ForCausalLM").find("the nearest that is: Llama"), std::string::npos);
  EXPECT_EQ(name("RwkvForCausalLM"),
            "architecture 'RwkvForCausalLM' is not supported; docs/models.md lists all that are");
}

// The first folders of Llama: no grouped heads, and no theta.
TEST(Architectures, AnOldSpellingIsKnown) {
  for (const char* type : {"", R"("model_type":"llama",)"}) {
    const auto config =
        read_config_json(std::string("{") + type + R"("architectures":["LLaMAForCausalLM"],"hidden_size":64,
        "intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":96,
        "max_sequence_length":2048,"rms_norm_eps":1e-6})");
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_EQ(config->architecture, "llama");
  }
}

TEST(Quantization, IsRefusedByTheMethodsName) {
  const auto method = [](const std::string& field) {
    return refused(R"({"model_type":"llama",)" + field + "}");
  };
  for (const char* each : {"torchao", "hqq", "aqlm", "quark"})
    EXPECT_TRUE(method(R"("quantization_config":{"quant_method":")" + std::string(each) + "\"}")
                    .starts_with("weights quantised by " + std::string(each) +
                                 " are not supported; supported: AWQ (gemm), "));
  EXPECT_NE(method(R"("quantization":{"group_size":64,"bits":7})").find("by MLX in 7 bits"),
            std::string::npos);
  EXPECT_NE(
      refused(R"({"model_type":"mistral3","text_config":{"quantization_config":{"quant_method":"aqlm"}}})")
          .find("by aqlm"),
      std::string::npos);
}

// As hubs have them.
TEST(Options, OfPopularModelsAreAllKnown) {
  const char* const configs[] = {
      // Qwen2.5 7B Instruct
      R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,"eos_token_id":151645,
          "hidden_act":"silu","hidden_size":3584,"initializer_range":0.02,"intermediate_size":18944,
          "max_position_embeddings":32768,"max_window_layers":28,"model_type":"qwen2","num_attention_heads":28,
          "num_hidden_layers":28,"num_key_value_heads":4,"rms_norm_eps":1e-06,"rope_theta":1000000.0,
          "sliding_window":131072,"tie_word_embeddings":false,"torch_dtype":"bfloat16",
          "transformers_version":"4.43.1","use_cache":true,"use_sliding_window":false,"vocab_size":152064})",
      // Qwen2 57B-A14B and Qwen3 30B-A3B
      R"({"model_type":"qwen2_moe","decoder_sparse_step":1,"max_window_layers":28,"mlp_only_layers":[],
          "norm_topk_prob":false,"output_router_logits":false,"router_aux_loss_coef":0.001,"sliding_window":65536,
          "use_sliding_window":false})",
      R"({"model_type":"qwen3_moe","max_window_layers":48,"norm_topk_prob":true,"sliding_window":4096,
          "use_sliding_window":false,"rope_scaling":null,"head_dim":128})",
      // Qwen3.5 and later
      R"({"architectures":["Qwen3_5ForConditionalGeneration"],"image_token_id":248056,"model_type":"qwen3_5",
          "text_config":{"attention_bias":false,"attn_output_gate":true,"full_attention_interval":4,"head_dim":256,
          "layer_types":["linear_attention","linear_attention","linear_attention","full_attention"],
          "linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_num_key_heads":16,"linear_num_value_heads":32,
          "linear_value_head_dim":128,"mamba_ssm_dtype":"float32","mlp_only_layers":[],"model_type":"qwen3_5_text",
          "mtp_num_hidden_layers":1,"mtp_use_dedicated_embeddings":false,"num_hidden_layers":4,
          "output_gate_type":"swish","partial_rotary_factor":0.25,
          "rope_parameters":{"mrope_interleaved":true,"mrope_section":[11,11,10],"partial_rotary_factor":0.25,
          "rope_theta":10000000,"rope_type":"default"}},
          "tie_word_embeddings":false,"video_token_id":248057,"vision_config":{"depth":27},
          "vision_end_token_id":248054,"vision_start_token_id":248053})",
  };
  for (const char* text : configs) {
    const auto config = read_config_json(text);
    ASSERT_TRUE(config) << text << config.error().message();
    EXPECT_TRUE(config->unknown_options.empty()) << text << config->unknown_options.front();
  }
}

}  // namespace
}  // namespace pagoda
