// Goal: layers with states are cut so that each head meets its own keys, every rank keeps as much as any
// other, and what cannot be cut so is refused with its numbers.
#include "models/weights/tensor_shard.h"

#include <gtest/gtest.h>

#include "kernels/linear_attention.h"

namespace pagoda {
namespace {

DecoderConfig decoder_of(const std::vector<MixerConfig>& mixers) {
  DecoderConfig config;
  config.vocab_size = config.hidden_size = 256;
  for (const MixerConfig& mixer : mixers) {
    LayerConfig& layer = config.layers.emplace_back();
    layer.mixer = mixer;
    layer.feed_forward = NoFeedForwardConfig{};
  }
  return config;
}

Result<TensorShard> shard_of(const DecoderConfig& config, std::int32_t rank, std::int32_t size,
                             std::int64_t block = 1) {
  return plan_shard(config, {.attention_output = block}, rank, size, ExchangeKind::sum);
}

LinearAttentionConfig heads(std::int32_t count, std::int32_t keys, bool tiled = false) {
  return {.num_heads = count,
          .num_key_heads = keys,
          .key_size = 8,
          .value_size = 16,
          .num_taps = 4,
          .tiled_heads = tiled};
}

std::int32_t key_of(const LinearAttentionConfig& config, std::int32_t head) {
  LinearAttentionArgs args;
  args.num_heads = config.num_heads;
  args.num_key_heads = config.num_key_heads;
  args.tiled_heads = config.tiled_heads;
  return args.key_head(head);
}

TEST(TensorShard, EachHeadMeetsItsOwnKeys) {
  int cut = 0;
  for (const bool tiled : {false, true})
    for (const auto& [count, keys] :
         {std::pair(48, 16), {32, 16}, {64, 16}, {6, 2}, {8, 1}, {4, 4}, {128, 8}})
      for (std::int32_t size = 1; size <= 8; ++size)
        for (std::int32_t rank = 0; rank < size; ++rank) {
          const LinearAttentionConfig whole = heads(count, keys, tiled);
          const auto shard = shard_of(decoder_of({whole}), rank, size);
          if (!shard) continue;
          ++cut;
          const StateShard& states = shard->layers.front().states;
          const LinearAttentionConfig own = part_of(whole, states);
          std::vector<std::int64_t> own_keys;
          for (const Range& range : states.keys)
            for (std::int64_t key = range.first; key < range.end(); ++key) own_keys.push_back(key);
          ASSERT_EQ(std::ssize(own_keys), own.num_key_heads);
          ASSERT_EQ(states.own.count * size, count);
          for (std::int32_t head = 0; head < own.num_heads; ++head)
            ASSERT_EQ(own_keys[static_cast<std::size_t>(key_of(own, head))],
                      key_of(whole, static_cast<std::int32_t>(states.own.first) + head))
                << count << " heads, " << keys << " keys, rank " << rank << " of " << size;
        }
  EXPECT_GT(cut, 150);
}

TEST(TensorShard, RanksShareTheStatesOfHeads) {
  const DecoderConfig config =
      decoder_of({heads(8, 2), ShortConvConfig{.num_channels = 64, .num_taps = 3},
                  SelectiveScanConfig{.num_channels = 1024, .state_size = 4, .num_taps = 4}});
  const std::vector<LayerState> whole = layer_states(config);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const auto shard = shard_of(config, rank, 4);
    ASSERT_TRUE(shard);
    const std::vector<LayerState> own = layer_states(config, *shard);
    EXPECT_EQ(own[0].pieces.size(), 1 + 8u / 4);
    EXPECT_EQ(own[0].pieces[0], 3 * (8 + 8 + 2 * 16));  // one key head, on two ranks
    EXPECT_EQ(own[0].pieces[1], whole[0].pieces[1]);
    EXPECT_EQ(own[1].pieces[0] * 4, whole[1].pieces[0]);
    EXPECT_EQ(own[2].pieces[0] * 4, whole[2].pieces[0]);
    EXPECT_EQ(own[2].pieces.size() * 4, 3 + whole[2].pieces.size());
  }
}

TEST(TensorShard, StatesThatCannotBeCutAreRefusedWithTheirNumbers) {
  const auto refusal = [](const std::vector<MixerConfig>& mixers, std::int32_t size, std::int64_t block = 1) {
    const auto shard = shard_of(decoder_of(mixers), 0, size, block);
    return shard ? std::string() : std::string(shard.error().message());
  };
  EXPECT_EQ(
      refusal({heads(6, 2)}, 4),
      "cannot split the model over 4 ranks: 6 heads with states over 2 for keys, which 4 does not divide");
  EXPECT_EQ(
      refusal({heads(12, 2)}, 3),
      "cannot split the model over 3 ranks: 12 heads with states over 2 for keys, of which 4 are neither "
      "whole groups nor parts of one");
  EXPECT_EQ(refusal({heads(12, 2, true)}, 3), "");
  EXPECT_EQ(refusal({ShortConvConfig{.num_channels = 65, .num_taps = 3}}, 2),
            "cannot split the model over 2 ranks: 65 channels, which 2 does not divide");
  EXPECT_EQ(
      refusal({heads(8, 2)}, 4, 64),
      "cannot split the model over 4 ranks: 8 heads with states over 2 for keys, whose output weights are "
      "quantised in blocks of 64 columns");
  const AttentionConfig attention = {.num_heads = 9, .num_kv_heads = 3, .head_size = 8};
  EXPECT_EQ(refusal({attention}, 2), "");
  EXPECT_EQ(
      refusal({attention, heads(8, 2)}, 2),
      "cannot split the model over 2 ranks: 3 heads for keys and values, which 2 does not divide, beside "
      "states");
}

}  // namespace
}  // namespace pagoda
