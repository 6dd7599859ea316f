// Goal: a step arrives as it was sent, without what only sampling needs; and no bytes, however broken, are
// taken for a message that reaches outside of itself. Method: round trips; every prefix, every changed word.
#include "model_runner/control_message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace pagoda {
namespace {

struct Example {
  std::vector<TokenId> first_tokens = {5, 6, 7}, second_tokens = {9, 11, 12}, third_tokens = {13, 14},
                       history = std::vector<TokenId>(1000, 3);
  std::vector<BlockId> first_blocks = {BlockId{4}, BlockId{2}, BlockId{8}}, second_blocks = {BlockId{1}};
  std::vector<BlockId> window_rows = {BlockId{20}, BlockId{21}}, state_row = {BlockId{30}};
  std::vector<KvTable> more_tables = {{.blocks = window_rows, .first_row = 3}, {.blocks = state_row}};
  std::vector<MaskWord> masks = {7, 7, 7};
  SamplingParams params;
  ScheduledBatch batch;

  Example() {
    batch.swap_out = {{BlockId{1}, SwapBlockId{2}}};
    batch.swap_in = {{BlockId{3}, SwapBlockId{4}}, {BlockId{5}, SwapBlockId{6}}};
    batch.block_copies = {{BlockId{7}, BlockId{8}}};
    batch.page_maps = {{BlockId{9}, BlockId{10}, 11}};
    batch.page_maps_ahead = {{BlockId{12}, kNoPage, 13}};
    ScheduledSequence first;
    first.num_computed_tokens = 4;
    first.num_prompt_tokens = 9;
    first.tokens = first_tokens;
    first.all_tokens = history;
    first.block_table = first_blocks;
    first.prompt_logprobs = 2;
    ScheduledSequence second;
    second.tokens = second_tokens;
    second.num_prompt_tokens = 1;
    second.block_table = second_blocks;
    second.sample = true;
    second.num_draft_tokens = 2;
    second.spec.params = &params;
    second.spec.masks = masks;
    ScheduledSequence third;
    third.tokens = third_tokens;
    third.num_prompt_tokens = 2;
    third.block_table = second_blocks;
    third.first_row = 1;
    third.more_tables = more_tables;
    third.sample = true;
    third.work = WorkKind::embed;
    third.pooling = {.type = PoolingType::mean, .dimensions = 64, .normalize = false};
    third.whole_prompt = true;
    batch.sequences = {first, second, third};
    batch.state_copies = {
        {.sequence = 2, .position = 2, .group = 2, .first_page = 1, .page = BlockId{40}, .count = 3}};
    batch.num_tokens = 8;
  }
};

TEST(ControlMessage, AStepArrivesAsItWasSent) {
  Example example;
  std::vector<std::byte> bytes;
  encode_step(example.batch, bytes);
  EXPECT_LT(bytes.size(), 350u);  // no history, no parameters, no masks
  ControlMessage message;
  ASSERT_TRUE(decode_control(bytes, message).ok());
  ASSERT_EQ(message.kind, ControlKind::step);
  const ScheduledBatch& got = message.batch;
  ASSERT_EQ(got.swap_in.size(), 2u);
  EXPECT_EQ(got.swap_out[0].swap_block, SwapBlockId{2});
  EXPECT_EQ(got.swap_in[1].block, BlockId{5});
  EXPECT_EQ(got.block_copies[0].to, BlockId{8});
  EXPECT_EQ(got.page_maps[0].count, 11);
  EXPECT_EQ(got.page_maps_ahead[0].page, kNoPage);
  EXPECT_EQ(got.num_tokens, 8);
  ASSERT_EQ(got.sequences.size(), 3u);
  EXPECT_EQ(got.sequences[0].num_computed_tokens, 4);
  EXPECT_EQ(got.sequences[0].num_prompt_tokens, 9);
  EXPECT_EQ(got.sequences[0].prompt_logprobs, 2);
  EXPECT_FALSE(got.sequences[0].sample);
  EXPECT_TRUE(std::ranges::equal(got.sequences[0].tokens, example.first_tokens));
  // 7 tokens in blocks of 4: the third block is not needed yet.
  EXPECT_TRUE(std::ranges::equal(got.sequences[0].block_table, example.first_blocks));
  EXPECT_TRUE(got.sequences[1].sample);
  EXPECT_EQ(got.sequences[0].num_draft_tokens, 0);
  EXPECT_EQ(got.sequences[1].num_draft_tokens, 2);
  EXPECT_TRUE(std::ranges::equal(got.sequences[1].tokens, example.second_tokens));
  EXPECT_TRUE(std::ranges::equal(got.sequences[1].block_table, example.second_blocks));
  EXPECT_EQ(got.sequences[1].work, WorkKind::generate);
  EXPECT_FALSE(got.sequences[1].whole_prompt);
  EXPECT_TRUE(got.sequences[1].more_tables.empty());
}

TEST(ControlMessage, TablesOfEveryGroupStatesAndPoolingArriveAsTheyWereSent) {
  Example example;
  std::vector<std::byte> bytes;
  encode_step(example.batch, bytes);
  ControlMessage message;
  ASSERT_TRUE(decode_control(bytes, message).ok());
  const ScheduledSequence& got = message.batch.sequences[2];
  EXPECT_EQ(got.first_row, 1);
  EXPECT_TRUE(std::ranges::equal(got.block_table, example.second_blocks));
  ASSERT_EQ(got.more_tables.size(), 2u);
  EXPECT_EQ(got.more_tables[0].first_row, 3);
  EXPECT_TRUE(std::ranges::equal(got.more_tables[0].blocks, example.window_rows));
  EXPECT_EQ(got.more_tables[1].first_row, 0);
  EXPECT_TRUE(std::ranges::equal(got.more_tables[1].blocks, example.state_row));
  EXPECT_EQ(got.work, WorkKind::embed);
  EXPECT_EQ(got.pooling, example.batch.sequences[2].pooling);
  EXPECT_TRUE(got.whole_prompt);
  ASSERT_EQ(message.batch.state_copies.size(), 1u);
  const StateCopy& copy = message.batch.state_copies[0];
  EXPECT_EQ(copy.sequence, 2);
  EXPECT_EQ(copy.position, 2);
  EXPECT_EQ(copy.group, 2);
  EXPECT_EQ(copy.first_page, 1);
  EXPECT_EQ(copy.page, BlockId{40});
  EXPECT_EQ(copy.count, 3);
}

TEST(ControlMessage, WhatNoStepCanAskForIsRefused) {
  const auto decodes = [](void (*change)(Example&)) {
    Example example;
    change(example);
    std::vector<std::byte> bytes;
    encode_step(example.batch, bytes);
    ControlMessage message;
    return decode_control(bytes, message).ok();
  };
  EXPECT_TRUE(decodes([](Example&) {}));
  using E = Example;
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].sequence = 3; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].sequence = -1; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].position = 0; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].position = 3; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].group = 3; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].page = kNoPage; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].count = 0; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.state_copies[0].count = INT32_MAX; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.sequences[2].num_computed_tokens = 1; }));  // a whole prompt
  EXPECT_FALSE(decodes([](E& e) { e.batch.sequences[2].num_draft_tokens = 1; }));  // nothing is drawn there
  EXPECT_FALSE(decodes([](E& e) { e.batch.sequences[2].pooling.dimensions = -1; }));
  EXPECT_FALSE(decodes([](E& e) { e.batch.sequences[2].pooling.type = static_cast<PoolingType>(3); }));
  EXPECT_FALSE(decodes([](E& e) { e.more_tables[0].first_row = -1; }));
}

TEST(ControlMessage, SizesAndSignalsArrive) {
  std::vector<std::byte> bytes;
  ControlMessage message;
  encode_allocate(std::int64_t{1} << 33, 7, bytes);
  ASSERT_TRUE(decode_control(bytes, message).ok());
  EXPECT_EQ(message.kind, ControlKind::allocate);
  EXPECT_EQ(message.num_blocks, std::int64_t{1} << 33);
  EXPECT_EQ(message.num_swap_blocks, 7);
  for (const ControlKind kind : {ControlKind::ping, ControlKind::release, ControlKind::release_all,
                                 ControlKind::load, ControlKind::stop}) {
    encode_signal(kind, bytes);
    ASSERT_TRUE(decode_control(bytes, message).ok());
    EXPECT_EQ(message.kind, kind);
  }
}

// Everything that a decoded message points to lies inside of it.
void expect_inside(const ControlMessage& message) {
  if (message.kind != ControlKind::step) return;
  std::size_t tokens = 0, blocks = 0, tables = 0;
  for (const ScheduledSequence& sequence : message.batch.sequences) {
    ASSERT_EQ(sequence.tokens.data(), message.tokens.data() + tokens);
    ASSERT_EQ(sequence.block_table.data(), message.blocks.data() + blocks);
    tokens += sequence.tokens.size();
    blocks += sequence.block_table.size();
    for (const KvTable& table : sequence.more_tables) {
      ASSERT_EQ(&table, message.tables.data() + tables);
      ASSERT_EQ(table.blocks.data(), message.blocks.data() + blocks);
      blocks += table.blocks.size();
      ++tables;
    }
  }
  ASSERT_EQ(tokens, message.tokens.size());
  ASSERT_EQ(blocks, message.blocks.size());
  ASSERT_EQ(tables, message.tables.size());
}

TEST(ControlMessage, BrokenBytesAreRefusedOrHarmless) {
  Example example;
  std::vector<std::byte> bytes;
  encode_step(example.batch, bytes);
  ControlMessage message;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(decode_control(cut, message).code(), StatusCode::corrupt_data) << length;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(decode_control(longer, message).code(), StatusCode::corrupt_data);

  std::mt19937_64 rng(11);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> changed = bytes;
    for (std::uint64_t change = 0; change <= rng() % 3; ++change) {
      const std::int32_t interesting[] = {-1,      0,         1,         2,
                                          1 << 30, INT32_MAX, INT32_MIN, static_cast<std::int32_t>(rng())};
      std::memcpy(changed.data() + rng() % (bytes.size() / 4) * 4, &interesting[rng() % 8], 4);
    }
    if (decode_control(changed, message).ok()) expect_inside(message);
  }
}

}  // namespace
}  // namespace pagoda
