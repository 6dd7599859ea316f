// Goal: config.json of Mamba, Falcon Mamba and Jamba as they are published is read, without a warning; that
// of the original Mamba code is refused with a hint.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "models/model_info.h"
#include "models/read_config.h"
#include "models/test_layers.h"

namespace pagoda {
namespace {

using testing::first;
using testing::rotating;
using testing::with_mixture;

// As the models are published, with what is of no effect. A width stands before what it would follow from.
TEST(Mamba1Config, ReadsModelsOfStatesAlone) {
  const Result<ModelInfo> falcon = read_config_json(
      R"({"architectures": ["FalconMambaForCausalLM"], "model_type": "falcon_mamba", "conv_kernel": 4,
          "expand": 16, "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 8192,
          "layer_norm_epsilon": 1e-05, "num_hidden_layers": 3, "rescale_prenorm_residual": false,
          "residual_in_fp32": true, "state_size": 16, "tie_word_embeddings": false, "time_step_floor": 0.0001,
          "time_step_init_scheme": "random", "time_step_max": 0.1, "time_step_min": 0.001,
          "time_step_rank": 256, "time_step_scale": 1.0, "use_bias": false, "use_conv_bias": true,
          "use_mambapy": false, "vocab_size": 65024, "mixer_rms_eps": 1e-5})");
  ASSERT_TRUE(falcon) << falcon.error().message();
  EXPECT_EQ(first<SelectiveScanConfig>(*falcon),
            (SelectiveScanConfig{.num_channels = 8192,
                                 .state_size = 16,
                                 .step_rank = 256,
                                 .num_taps = 4,
                                 .norms = SelectiveScanConfig::Norms::unweighted,
                                 .norm_eps = 1e-5f}));
  EXPECT_TRUE(falcon->unknown_options.empty()) << describe_unknown_options(*falcon);
  EXPECT_FALSE(falcon->decoder.tied_head);

  const char* kMamba = R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba", "conv_kernel": 4,
          "d_inner": 1536, "d_model": 768, "expand": 2, "fused_add_norm": true, "hidden_size": 768,
          "n_layer": 24, "num_hidden_layers": 24, "pad_vocab_size_multiple": 8, "residual_in_fp32": true,
          "rms_norm": true, "ssm_cfg": {}, "state_size": 16, "time_step_rank": "auto", "vocab_size": 50280})";
  const Result<ModelInfo> mamba = read_config_json(kMamba);
  ASSERT_TRUE(mamba) << mamba.error().message();
  EXPECT_EQ(first<SelectiveScanConfig>(*mamba).num_channels, 1536);
  EXPECT_EQ(first<SelectiveScanConfig>(*mamba).step_rank, 48);
  EXPECT_TRUE(mamba->unknown_options.empty()) << describe_unknown_options(*mamba);
  EXPECT_TRUE(mamba->decoder.tied_head);
  EXPECT_EQ(mamba->decoder.num_layers(), 24);
  EXPECT_EQ(mamba->decoder.max_positions, 1 << 20);

  const Result<ModelInfo> original = read_config_json(
      R"({"d_model": 768, "n_layer": 24, "vocab_size": 50277, "ssm_cfg": {}, "rms_norm": true})");
  ASSERT_FALSE(original);
  EXPECT_NE(original.error().message().find("original Mamba code ('ssm_cfg')"), std::string::npos)
      << original.error().message();
}

TEST(Mamba1Config, ReadsJamba) {
  const auto read = [](std::string_view more) {
    return read_config_json(concat(
        R"({"architectures": ["JambaForCausalLM"], "model_type": "jamba", "attention_dropout": 0.0,
            "calc_logits_for_entire_prompt": false, "hidden_act": "silu", "mamba_conv_bias": true,
            "mamba_inner_layernorms": true, "mamba_proj_bias": false, "num_hidden_layers": 8,
            "output_router_logits": false, "sliding_window": null, "use_mamba_kernels": false, )",
        more, "}"));
  };
  const Result<ModelInfo> mini = read(R"("attn_layer_period": 8, "attn_layer_offset": 4)");
  ASSERT_TRUE(mini) << mini.error().message();
  EXPECT_TRUE(mini->unknown_options.empty()) << describe_unknown_options(*mini);
  std::vector<bool> attends(8), sparse(8);
  attends[4] = true;
  for (const std::size_t layer : {1u, 3u, 5u, 7u}) sparse[layer] = true;
  EXPECT_EQ(testing::of_layers(*mini, [](const LayerConfig& layer) { return layer.attention() != nullptr; }),
            attends);
  EXPECT_EQ(with_mixture(*mini), sparse);
  EXPECT_EQ(rotating(*mini), std::vector<bool>(8, false));
  EXPECT_EQ(first<SelectiveScanConfig>(*mini).norms, SelectiveScanConfig::Norms::weighted);
  EXPECT_EQ(first<SelectiveScanConfig>(*mini).step_rank, 256);

  const Result<ModelInfo> dense = read(R"("num_experts": 1, "num_experts_per_tok": 1)");
  ASSERT_TRUE(dense) << dense.error().message();
  EXPECT_EQ(with_mixture(*dense), std::vector<bool>(8, false));

  for (const char* field :
       {R"("attn_layer_period": 0)", R"("attn_layer_offset": 8)", R"("expert_layer_offset": -1)",
        R"("mamba_inner_layernorms": false)", R"("mamba_dt_rank": "x")", R"("mamba_d_conv": 1)"})
    EXPECT_FALSE(read(field)) << field;
}

}  // namespace
}  // namespace pagoda
