// Goal: models that make vectors make the host's on a device: encoders, which attend both ways and keep
// nothing, and decoders; with experts, types of tokens and heads behind the pooling; a vector has the same
// bits alone and beside others. The host's are held against transformers (model_runner/vectors_test.cc).
#include <gtest/gtest.h>
#include <unistd.h>

#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "model_runner/family_model.h"
#include "models/read_config.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;
using Vectors = std::vector<std::vector<float>>;

class DeviceVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(DeviceVectors, AreTheHosts) {
  const std::string name = std::string("../encoders/") + GetParam();
  const std::string folder = write_family(
      name, ::testing::TempDir() + "device_vectors_" + GetParam() + "_" + std::to_string(::getpid()));
  auto opened = ModelSource::open(folder);
  ASSERT_TRUE(opened) << opened.error().message();
  const std::shared_ptr<const ModelSource> source = *std::move(opened);
  const bool encoder = is_encoder(read_model_config(*source)->decoder);
  const auto pooling = read_pooling_model(*source, encoder, {.runner = "pooling"});
  ASSERT_TRUE(pooling && *pooling);
  RunnerOptions options = {.dtype = "float32",
                           .max_context = 128,
                           .max_num_batched_tokens = 128,
                           .max_num_seqs = 4,
                           .num_blocks = 40,
                           .pooling = *pooling};

  struct Text {
    std::vector<TokenId> ids;
    std::int32_t second = 0;
  };
  std::vector<Text> texts;
  const boost::json::object family = read_family(name);
  for (const boost::json::value& golden : family.at("goldens").as_array()) {
    if (texts.size() == 3 || golden.at("ids").as_array().size() > 40) continue;
    Text& text = texts.emplace_back(Text{.ids = {}, .second = golden.at("second").to_number<std::int32_t>()});
    for (const boost::json::value& id : golden.at("ids").as_array())
      text.ids.push_back(id.to_number<TokenId>());
  }
  ASSERT_GE(texts.size(), 2u);
  const auto run = [&](ModelRunner& runner, std::span<const Text> some) -> Vectors {
    ScheduledBatch batch;
    std::vector<std::vector<BlockId>> blocks(some.size());
    std::int32_t next = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      for (std::size_t at = 0; at < some[i].ids.size(); at += 16) blocks[i].push_back(BlockId{next++});
      ScheduledSequence& sequence = batch.sequences.emplace_back();
      sequence.id = SequenceId{i + 1};
      sequence.tokens = sequence.all_tokens = some[i].ids;
      sequence.num_prompt_tokens = static_cast<std::int32_t>(some[i].ids.size());
      if (!encoder) sequence.block_table = blocks[i];
      sequence.sample = true;
      sequence.work = (*pooling)->kind;
      sequence.pooling = {.type = (*pooling)->type, .normalize = (*pooling)->normalize};
      sequence.whole_prompt = encoder;
      sequence.second_text = encoder ? some[i].second : 0;
      batch.num_tokens += static_cast<std::int32_t>(some[i].ids.size());
    }
    StepResult result = runner.run(batch);
    EXPECT_TRUE(result.status.ok()) << result.status.message();
    return std::move(result.vectors);
  };

  const auto host = LocalModelRunner::create(source, options);
  ASSERT_TRUE(host) << host.error().message();
  const Vectors wanted = run(**host, texts);
  auto device = device::open_test_device({.seed = 3});
  ASSERT_TRUE(device);
  const auto there = DeviceModelRunner::create(source, options, *std::move(device));
  ASSERT_TRUE(there) << there.error().message();
  EXPECT_EQ((*there)->vector_size(), (*host)->vector_size());
  const Vectors made = run(**there, texts);
  ASSERT_EQ(made.size(), wanted.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].size(), wanted[i].size());
    for (std::size_t at = 0; at < made[i].size(); ++at) ASSERT_NEAR(made[i][at], wanted[i][at], 1e-4) << at;
  }
  EXPECT_EQ(run(**there, std::span(texts).last(1)).front(), made.back());
  std::filesystem::remove_all(folder);
}
INSTANTIATE_TEST_SUITE_P(All, DeviceVectors,
                         ::testing::Values("bert", "bert_cross", "xlm_roberta", "nomic_bert_moe",
                                           "modern_bert", "gemma_embedding", "qwen3", "qwen3_classes"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace pagoda::device_runner
