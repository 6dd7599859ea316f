#include "models/weights/active_weights.h"

#include <gtest/gtest.h>

#include "models/test_layers.h"

namespace pagoda {
namespace {

DecoderConfig two_layers(bool tied) {
  DecoderConfig decoder;
  decoder.tied_head = tied;
  MixtureConfig mixture;
  mixture.routing.num_experts = 8;
  mixture.routing.per_token = 2;
  decoder.layers.resize(2);
  decoder.layers[0].feed_forward = DenseFeedForwardConfig{};
  decoder.layers[1].feed_forward = mixture;
  return decoder;
}

TEST(ActiveWeights, OfSafetensors) {
  const WeightNames names = testing::names_of("qwen3moe");
  const std::vector<StoredTensor> tensors = {
      {"model.embed_tokens.weight", 1'000'000},
      {"lm_head.weight", 100'000},
      {"model.layers.0.self_attn.q_proj.weight", 10'000},
      {"model.layers.0.mlp.gate_proj.weight", 4'000},
      {"model.layers.1.mlp.gate.weight", 100},                 // the router
      {"model.layers.1.mlp.experts.3.down_proj.weight", 800},  // one of eight: a quarter of each on average
      {"model.layers.1.mlp.experts.gate_up_proj", 40},         // all experts
      {"model.layers.2.mlp.gate_proj.weight", 7},              // behind the model: drafts
      {"model.visual.layers.0.mlp.gate_proj.weight", 7},
  };
  EXPECT_EQ(active_weight_bytes(two_layers(false), names, tensors),
            100'000 + 10'000 + 4'000 + 100 + 200 + 10);
  EXPECT_EQ(active_weight_bytes(two_layers(true), names, tensors),
            1'000'000 + 10'000 + 4'000 + 100 + 200 + 10);
}

TEST(ActiveWeights, OfGguf) {
  const WeightNames names = testing::names_of("mixtral", ModelFormat::gguf);
  const std::vector<StoredTensor> tensors = {
      {"token_embd.weight", 1000},        {"output.weight", 100},
      {"blk.0.ffn_gate.weight", 40},      {"blk.1.ffn_gate_inp.weight", 10},
      {"blk.1.ffn_gate_exps.weight", 80}, {"blk.1.ffn_up.7.weight", 8},
      {"blk.1.ffn_down.weight", 3},
  };
  EXPECT_EQ(active_weight_bytes(two_layers(false), names, tensors), 100 + 40 + 10 + 20 + 2 + 3);
}

}  // namespace
}  // namespace pagoda
