// Goal: what a sequence gets, to the bit, does not depend on the rest of the batch, the chunks of its
// prefill, which blocks it has, whether they are shared, swapped or copied, or the number of threads; and bad
// input is answered by name.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>

#include "model_runner/perplexity.h"
#include "model_runner/reference_check.h"
#include "model_runner/test_sequences.h"

namespace pagoda::testing {
namespace {

std::vector<TokenId> random_prompt(std::size_t length, std::uint64_t seed, std::int32_t vocab) {
  std::mt19937_64 rng(seed);
  std::vector<TokenId> ids(length);
  for (TokenId& id : ids) id = static_cast<TokenId>(rng() % static_cast<std::uint64_t>(vocab));
  return ids;
}

struct BitsCase {
  const char* model;
  const char* dtype;
  const char* kv_cache_dtype = "auto";
};

class BitIdentity : public ::testing::TestWithParam<BitsCase> {
 protected:
  std::unique_ptr<LocalModelRunner> runner(std::int32_t threads, std::int32_t block_size = 16) {
    RunnerOptions options;
    options.dtype = GetParam().dtype;
    options.kv_cache_dtype = GetParam().kv_cache_dtype;
    options.threads = threads;
    options.block_size = block_size;
    options.num_blocks = 400;
    options.num_swap_blocks = 100;
    options.max_num_batched_tokens = 512;
    std::string path;
    if (std::string(GetParam().model) == "default") {
      const auto file = default_model_file();
      if (!file) return nullptr;
      path = *file;
    } else {
      path = fixture(GetParam().model);
      if (std::filesystem::exists(path + "/model.gguf")) path += "/model.gguf";
    }
    auto source = ModelSource::open(path);
    if (!source) ADD_FAILURE() << source.error().message();
    auto result = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
    if (!result) ADD_FAILURE() << result.error().message();
    return *std::move(result);
  }

  // Three sequences of different kinds: greedy, sampled, penalised.
  static std::vector<TestSequence> sequences(std::int32_t vocab) {
    std::vector<TestSequence> all;
    const std::size_t lengths[] = {19, 33, 7};
    for (std::size_t i = 0; i < 3; ++i) {
      all.push_back(greedy(random_prompt(lengths[i], i, vocab)));
      all.back().seed = 40 + i;
    }
    all[1].params.temperature = 1;
    all[1].params.top_p = 0.95f;
    all[2].params.temperature = 0.8f;
    all[2].params.top_k = 12;
    all[2].params.repetition_penalty = 1.2f;
    return all;
  }
  static constexpr std::size_t kSteps = 8;

  // Each alone, in one chunk, on one thread.
  std::vector<TestSequence> expected(LocalModelRunner& one) {
    std::vector<TestSequence> alone = sequences(one.config().vocab_size);
    for (TestSequence& sequence : alone) {
      Driver driver(one);
      EXPECT_TRUE(driver.generate({&sequence}, kSteps).ok());
    }
    return alone;
  }
};

TEST_P(BitIdentity, AloneInABatchChunkedAndOnTwoThreads) {
  const auto one = runner(1);
  if (one == nullptr) GTEST_SKIP() << "the default model has not been fetched";
  const std::vector<TestSequence> alone = expected(*one);
  const auto two = runner(2);
  for (LocalModelRunner* run : {one.get(), two.get()}) {
    for (const std::int32_t chunk : {1 << 20, 16, 5}) {
      SCOPED_TRACE(::testing::Message()
                   << "chunk " << chunk << (run == one.get() ? ", 1 thread" : ", 2 threads"));
      std::vector<TestSequence> together = sequences(one->config().vocab_size);
      std::vector<TestSequence> neighbours;
      for (std::uint64_t i = 0; i < 6; ++i) {
        neighbours.push_back(greedy(random_prompt(3 + 4 * i, 100 + i, one->config().vocab_size)));
        neighbours.back().params.logprobs.reset();
      }
      std::vector<TestSequence*> all;
      for (TestSequence& sequence : neighbours) all.push_back(&sequence);
      for (TestSequence& sequence : together)
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), &sequence);
      Driver driver(*run);
      ASSERT_TRUE(driver.generate(all, kSteps, chunk).ok());
      for (std::size_t i = 0; i < together.size(); ++i) expect_same_draws(together[i], alone[i]);
    }
  }
}

// Logits are not written down where all rows take their most likely tokens.
TEST_P(BitIdentity, TheMostLikelyTokensWithLogitsAndWithout) {
  for (const std::int32_t threads : {1, 2}) {
    const auto run = runner(threads);
    if (run == nullptr) GTEST_SKIP() << "the default model has not been fetched";
    const auto generate = [&](bool logprobs) {
      std::vector<TestSequence> all;
      std::vector<TestSequence*> pointers;
      for (std::uint64_t i = 0; i < 70; ++i) {
        all.push_back(greedy(random_prompt(1 + i % 3, i, run->config().vocab_size)));
        if (!logprobs) all.back().params.logprobs.reset();
      }
      for (TestSequence& sequence : all) pointers.push_back(&sequence);
      Driver driver(*run);
      EXPECT_TRUE(driver.generate(pointers, 4).ok());
      return all;
    };
    const std::vector<TestSequence> with = generate(true), without = generate(false);
    for (std::size_t i = 0; i < with.size(); ++i) EXPECT_EQ(without[i].tokens, with[i].tokens) << i;
  }
}

// A constrained neighbour makes the step write its logits down; whose most likely token is found without them
// when it is alone gets the same one, and what the neighbour gets is the most likely of what it may say.
TEST_P(BitIdentity, AConstrainedNeighbourChangesNothing) {
  const auto run = runner(2);
  if (run == nullptr) GTEST_SKIP() << "the default model has not been fetched";
  const std::int32_t vocab = run->config().vocab_size;
  for (std::uint64_t i = 0; i < 4; ++i) {
    TestSequence alone = greedy(random_prompt(9 + i, 30 + i, vocab));
    alone.params.logprobs.reset();  // by linear_max
    TestSequence together = alone, constrained = greedy(random_prompt(14, 50 + i, vocab));
    constrained.params.logprobs.reset();
    TestSequence scored = constrained;
    scored.params.logprobs = vocab;  // everything, best first
    constrained.mask.resize(mask_words(vocab));
    for (TokenId token = static_cast<TokenId>(i); token < vocab; token += 7) allow(constrained.mask, token);
    Driver first(*run), second(*run), third(*run);
    ASSERT_TRUE(first.generate({&alone}, kSteps).ok());
    ASSERT_TRUE(second.generate({&together, &constrained}, kSteps).ok());
    EXPECT_EQ(alone.tokens, together.tokens);
    ASSERT_TRUE(third.step({&scored}, 1 << 20).ok());
    const auto best = std::ranges::find_if(
        scored.top[0], [&](const TokenLogprob& entry) { return allows(constrained.mask, entry.token); });
    EXPECT_EQ(constrained.sampled[0].token, best->token);
    for (const Candidate& candidate : constrained.sampled)
      EXPECT_EQ(candidate.token % 7, static_cast<TokenId>(i));
  }
}

// A token that must come is drawn without logits, and its neighbours never notice.
TEST_P(BitIdentity, WhatMustComeNeedsNoLogits) {
  const auto run = runner(2);
  if (run == nullptr) GTEST_SKIP() << "the default model has not been fetched";
  const std::int32_t vocab = run->config().vocab_size;
  TestSequence alone = greedy(random_prompt(9, 30, vocab));
  TestSequence together = alone, forced = greedy(random_prompt(14, 50, vocab)), scored = forced;
  forced.params.logprobs.reset();
  forced.mask.assign(mask_words(vocab), 0);
  allow(forced.mask, 5);
  scored.mask = forced.mask;
  Driver first(*run), second(*run);
  ASSERT_TRUE(first.generate({&alone}, kSteps).ok());
  ASSERT_TRUE(second.generate({&forced, &together, &scored}, kSteps).ok());
  expect_same_draws(together, alone);
  EXPECT_EQ(second.num_settled_rows(), kSteps) << "of the one whose log-probabilities nobody asks for";
  for (const TestSequence& sequence : {forced, scored})
    for (const Candidate& candidate : sequence.sampled) EXPECT_EQ(candidate.token, 5);
}

TEST_P(BitIdentity, RecomputedAfterPreemption) {
  const auto run = runner(1);
  if (run == nullptr) GTEST_SKIP() << "the default model has not been fetched";
  const std::vector<TestSequence> alone = expected(*run);
  std::vector<TestSequence> again = sequences(run->config().vocab_size);
  for (std::size_t i = 0; i < again.size(); ++i) {
    Driver driver(*run);
    ASSERT_TRUE(driver.generate({&again[i]}, 3).ok());
    again[i].num_computed = 0;  // all blocks lost: everything is computed again, outputs included
    again[i].blocks.clear();
    ASSERT_TRUE(driver.generate({&again[i]}, kSteps, 11).ok());
    expect_same_draws(again[i], alone[i]);
  }
}

TEST_P(BitIdentity, ForkedCopiedAndSwappedBlocks) {
  const auto run = runner(2);
  if (run == nullptr) GTEST_SKIP() << "the default model has not been fetched";
  const auto one = runner(1);
  const std::vector<TestSequence> alone = expected(*one);
  std::vector<TestSequence> parents = sequences(run->config().vocab_size);
  for (std::size_t i = 0; i < parents.size(); ++i) {
    Driver driver(*run);
    ASSERT_TRUE(driver.generate({&parents[i]}, 2).ok());
    // The child shares all blocks but the last, which it gets a copy of; the parent goes on and spoils its
    // own.
    TestSequence child = parents[i];
    const BlockId copied = static_cast<BlockId>(300 + static_cast<std::int32_t>(i));
    const BlockCopy copy = {child.blocks.back(), copied};
    child.blocks.back() = copied;
    TestSequence& parent = parents[i];
    parent.tokens.back() = (parent.tokens.back() + 1) % run->config().vocab_size;
    ASSERT_TRUE(driver.step({&parent}, 1, {copy}).ok());

    // Then the child's blocks go to the swap space and come back elsewhere.
    ScheduledBatch out, in;
    for (std::size_t b = 0; b < child.blocks.size(); ++b) {
      const auto place = static_cast<SwapBlockId>(b);
      out.swap_out.push_back({child.blocks[b], place});
      child.blocks[b] = static_cast<BlockId>(350 + static_cast<std::int32_t>(b));
      in.swap_in.push_back({child.blocks[b], place});
    }
    ASSERT_TRUE(run->run(out).status.ok());
    ASSERT_TRUE(run->run(in).status.ok());
    ASSERT_TRUE(driver.generate({&child}, kSteps).ok());
    expect_same_draws(child, alone[i]);
  }
}

TEST_P(BitIdentity, PromptScoresInAnyChunks) {
  const auto run = runner(2);
  if (run == nullptr) GTEST_SKIP() << "the default model has not been fetched";
  std::vector<std::vector<TokenLogprobs>> scores;
  for (const std::int32_t chunk : {1 << 20, 13, 1}) {
    TestSequence sequence = greedy(random_prompt(40, 5, run->config().vocab_size));
    sequence.prompt_logprobs = 3;
    Driver driver(*run);
    while (!sequence.caught_up()) ASSERT_TRUE(driver.step({&sequence}, chunk).ok());
    ASSERT_EQ(sequence.prompt_scores.size(), 39u);
    scores.push_back(sequence.prompt_scores);
    for (std::size_t i = 0; i < scores.back().size(); ++i) {
      ASSERT_EQ(scores.back()[i].chosen.token, sequence.tokens[i + 1]);
      ASSERT_EQ(scores.back()[i].top.size(), 3u);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(scores.back()[i].chosen.logprob),
                std::bit_cast<std::uint32_t>(scores.front()[i].chosen.logprob));
      EXPECT_EQ(scores.back()[i].chosen.rank, scores.front()[i].chosen.rank);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, BitIdentity,
    ::testing::Values(BitsCase{"llama", "float32"}, BitsCase{"llama", "auto"},
                      BitsCase{"opt_post_norm", "auto"}, BitsCase{"qwen3", "int8"},
                      BitsCase{"gemma3", "auto"}, BitsCase{"mistral", "bfloat16"},
                      BitsCase{"llama_gguf_quantized", "auto"}, BitsCase{"default", "auto"},
                      BitsCase{"llama", "float32", "int8"}, BitsCase{"opt", "bfloat16", "int8"},
                      BitsCase{"llama", "auto", "fp8"}, BitsCase{"default", "auto", "int8"},
                      BitsCase{"qwen2", "auto", "float16"}),
    [](const auto& info) {
      return std::string(info.param.model) + "_" + info.param.dtype + "_" + info.param.kv_cache_dtype;
    });

TEST(LocalModelRunner, ABlockOfAnySizeGivesTheSameUpToRounding) {
  std::vector<TestSequence> results;
  for (const std::int32_t block_size : {16, 1, 7, 64}) {
    RunnerOptions options;
    options.dtype = "float32";
    options.block_size = block_size;
    options.num_blocks = 64;
    auto runner = LocalModelRunner::create(opened(fixture("llama")), options);
    ASSERT_TRUE(runner);
    TestSequence sequence = greedy(random_prompt(23, 1, 64));
    Driver driver(**runner);
    ASSERT_TRUE(driver.generate({&sequence}, 6, 9).ok());
    results.push_back(sequence);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(results.back().sampled[i].logprob, results.front().sampled[i].logprob, 1e-4) << block_size;
    }
  }
}

TEST(LocalModelRunner, BadOptionsAreRefusedByName) {
  const auto source = opened(fixture("opt"));
  const auto message = [&](RunnerOptions options) {
    auto runner = LocalModelRunner::create(source, options);
    return runner ? std::string() : runner.error().message();
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.dtype = "float64"}).find("'float64'"), std::string::npos);
  EXPECT_NE(message({.kv_cache_dtype = "fp8_e5m2"}).find("'fp8_e5m2'"), std::string::npos);
  EXPECT_NE(message({.block_size = 0}).find("block-size 0"), std::string::npos);
  EXPECT_NE(message({.block_size = 257}).find("block-size 257"), std::string::npos);
  EXPECT_NE(message({.threads = 0}), "");
  EXPECT_NE(message({.max_num_batched_tokens = 0}), "");
  EXPECT_NE(message({.num_blocks = 1, .num_swap_blocks = 2}), "");
}

TEST(LocalModelRunner, TellsWhatItsMemoryIsTakenFor) {
  RunnerOptions options;
  options.num_blocks = 10;
  options.num_swap_blocks = 4;
  auto runner = LocalModelRunner::create(opened(fixture("opt")), options);
  ASSERT_TRUE(runner);
  const MemoryPlan taken = (*runner)->memory_plan();
  const auto block_bytes = static_cast<std::int64_t>((*runner)->kv_layout().block_bytes());
  EXPECT_GE(taken.kv_bytes, 10 * block_bytes);  // rounded up to pages
  EXPECT_GE(taken.swap_bytes, 4 * block_bytes);
  EXPECT_GT(taken.activation_bytes, 0);
  EXPECT_GE(taken.buffer_bytes, 64 * static_cast<std::int64_t>(sizeof(float)) * 64);  // logits of 64 rows
  EXPECT_GT(taken.weight_bytes, 0);
  EXPECT_TRUE((*runner)->ignored_tensors().empty());
}

TEST(LocalModelRunner, ABatchThatBreaksThePromiseEndsWithAMessage) {
  RunnerOptions options;
  options.num_blocks = 4;
  options.max_num_batched_tokens = 20;
  auto runner = LocalModelRunner::create(opened(fixture("opt")), options);
  ASSERT_TRUE(runner);
  const std::vector<TokenId> tokens = {1, 2, 64};
  const std::vector<BlockId> blocks = {BlockId{0}};
  const auto status = [&](std::int32_t computed, std::span<const TokenId> span,
                          std::span<const BlockId> table) {
    ScheduledBatch batch;
    ScheduledSequence sequence;
    sequence.num_computed_tokens = computed;
    sequence.tokens = sequence.all_tokens = span;
    sequence.block_table = table;
    batch.sequences.push_back(sequence);
    return (*runner)->run(batch).status;
  };
  EXPECT_TRUE(status(0, std::span(tokens).first(2), blocks).ok());
  EXPECT_FALSE(status(0, tokens, blocks).ok());                       // token 64 of 64
  EXPECT_FALSE(status(15, std::span(tokens).first(2), blocks).ok());  // second block missing
  EXPECT_FALSE(status(0, {}, blocks).ok());
  const std::vector<BlockId> outside = {BlockId{4}};
  EXPECT_FALSE(status(0, std::span(tokens).first(2), outside).ok());
  const std::vector<BlockId> many = {BlockId{0}, BlockId{1}, BlockId{2}, BlockId{3}};
  EXPECT_FALSE(status(47, std::span(tokens).first(2), many).ok());  // position 48 of 48
}

TEST(KvStorage, ChainedCopiesRunInOrder) {
  const KvLayout layout = {
      .dtype = DType::f32, .num_layers = 1, .num_kv_heads = 1, .head_size = 4, .block_size = 2};
  auto storage = KvStorage::create(layout, 4, 0);
  ASSERT_TRUE(storage);
  const std::size_t bytes = layout.block_bytes();
  for (int block = 0; block < 4; ++block) {
    std::memset(storage->data() + static_cast<std::size_t>(block) * bytes, block + 1, bytes);
  }
  const std::vector<BlockCopy> copies = {
      {BlockId{0}, BlockId{1}}, {BlockId{1}, BlockId{2}}, {BlockId{3}, BlockId{0}}};
  storage->copy(KernelContext{}, copies);
  const auto value = [&](int block) {
    return static_cast<int>(storage->data()[static_cast<std::size_t>(block) * bytes]);
  };
  EXPECT_EQ(value(0), 4);
  EXPECT_EQ(value(1), 1);
  EXPECT_EQ(value(2), 1);
  EXPECT_EQ(value(3), 4);
}

TEST(KvStorage, IdleTimeMakesMemoryResidentAheadOfItsUse) {
  constexpr std::int64_t kMiB = 1 << 20;
  const KvLayout layout = {
      .dtype = DType::f32, .num_layers = 8, .num_kv_heads = 1, .head_size = 64, .block_size = 256};
  ASSERT_EQ(layout.block_bytes(), kMiB);
  auto storage = KvStorage::create(layout, 130, 0);
  ASSERT_TRUE(storage);
  const auto resident = [&] {  // MiB
    std::vector<unsigned char> pages(130 * kMiB / 4096);
    EXPECT_EQ(mincore(storage->data(), 130 * kMiB, pages.data()), 0);
    return std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }) * 4096 / kMiB;
  };
  const auto populate = [&] {
    int steps = 0;
    while (storage->populate_ahead()) ++steps;
    return steps;
  };
  const auto before = resident();
  populate();
  if (resident() == before) GTEST_SKIP() << "this system cannot populate memory";
  EXPECT_GE(resident(), 64);  // 16,384 tokens
  EXPECT_LE(resident(), 66);  // to the end of a huge page
  EXPECT_EQ(populate(), 0);
  storage->note_used(BlockId{79});
  EXPECT_GT(populate(), 10);
  EXPECT_GE(resident(), 64 + 50);  // 64..80 is the batch's to touch
  EXPECT_TRUE(storage->data()[129 * kMiB] == std::byte{0});
  storage->note_used(BlockId{129});
  EXPECT_EQ(populate(), 0);
}

TEST(Perplexity, IsTheMeanOverWindows) {
  RunnerOptions options;
  options.dtype = "float32";
  options.num_blocks = 10;
  auto runner = LocalModelRunner::create(opened(fixture("gpt2")), options);
  ASSERT_TRUE(runner);
  const std::vector<TokenId> tokens = random_prompt(45, 3, 64);
  const auto result = measure_perplexity(**runner, tokens, {.context = 20, .max_num_batched_tokens = 6});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->window_mean_nll.size(), 3u);
  EXPECT_EQ(result->num_scored, 19 + 19 + 4);
  EXPECT_NEAR(
      result->mean_nll,
      (19 * result->window_mean_nll[0] + 19 * result->window_mean_nll[1] + 4 * result->window_mean_nll[2]) /
          42,
      1e-9);
  EXPECT_NEAR(result->perplexity, std::exp(result->mean_nll), 1e-9);
  // One token over a window's end is not scored; a text of one token cannot be.
  EXPECT_EQ(measure_perplexity(**runner, std::span(tokens).first(41), {.context = 20})->num_scored, 38);
  EXPECT_FALSE(measure_perplexity(**runner, std::span(tokens).first(1), {}));
  EXPECT_FALSE(measure_perplexity(**runner, tokens, {.context = 1}));

  // A BOS stands before 19 tokens of the text in each window, all of which are scored.
  const auto with_bos = measure_perplexity(**runner, tokens, {.context = 20, .bos = 1});
  ASSERT_TRUE(with_bos);
  EXPECT_EQ(with_bos->num_scored, static_cast<std::int64_t>(tokens.size()));
  std::vector<TokenId> first = {1};
  first.insert(first.end(), tokens.begin(), tokens.begin() + 19);
  EXPECT_EQ(with_bos->window_mean_nll.front(),
            measure_perplexity(**runner, first, {.context = 20})->mean_nll);
}

TEST(ReferenceCheck, TheEngineIsNearTheReference) {
  const std::vector<TokenId> tokens = random_prompt(30, 3, 64);
  RunnerOptions options;
  options.dtype = "float32";
  const auto exact = compare_with_reference(opened(fixture("llama")), options, tokens);
  ASSERT_TRUE(exact) << exact.error().message();
  EXPECT_EQ(exact->num_scored, 29);
  EXPECT_LT(exact->max_logprob_difference, 1e-3);
  options.dtype = "bfloat16";
  const auto rounded = compare_with_reference(opened(fixture("llama")), options, tokens);
  ASSERT_TRUE(rounded);
  EXPECT_GT(rounded->max_logprob_difference, 0);
  EXPECT_LT(std::abs(rounded->nll_difference()), 0.1);
  EXPECT_FALSE(compare_with_reference(opened(fixture("llama")), options, std::span(tokens).first(1)));
}

}  // namespace
}  // namespace pagoda::testing
