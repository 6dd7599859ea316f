// Goal: steps are replayed for as many rows and tokens as their bucket has, and captured anew where a bucket
// ends; what cannot be captured runs eagerly; no more graphs live than there may be; and a graph that does
// not do what its step does is found by the check.
#include "device_runner/step_graphs.h"

#include <gtest/gtest.h>

#include "device/kernel_launches.h"
#include "device/test_device.h"
#include "device_runner/device_model_runner.h"
#include "device_runner/test_seeds.h"
#include "model_runner/test_sequences.h"
#include "models/read_config.h"

namespace pagoda::device_runner {
namespace {

using namespace pagoda::testing;

std::unique_ptr<DeviceModelRunner> open_with_graphs(
    const char* model, GraphUse graphs, std::uint64_t seed = 1, const char* dtype = "float32",
    AttentionKernels attention = AttentionKernels::automatic) {
  RunnerOptions options;
  options.dtype = dtype;
  options.num_blocks = 200;
  options.max_context = 256;
  options.max_num_seqs = 11;
  auto source = ModelSource::open(fixture(model));
  CHECK(source.has_value());
  auto longer = read_model_config(**source);
  CHECK(longer.has_value());
  longer->decoder.max_positions = options.max_context;
  options.model = std::make_shared<const ModelInfo>(*std::move(longer));
  auto device = device::open_test_device({.seed = seed});
  CHECK(device.has_value());
  auto runner = DeviceModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options,
                                          *std::move(device), {.attention = attention, .graphs = graphs});
  CHECK(runner.has_value());
  return *std::move(runner);
}

TestSequence of_length(std::size_t length) {
  std::vector<TokenId> prompt;
  for (std::size_t i = 0; i < length; ++i)
    prompt.push_back(static_cast<TokenId>(3 + (7 * i + 5 * length) % 60));
  return greedy(prompt);
}

// GraphSequences with prompts of these lengths.
struct GraphSequences {
  explicit GraphSequences(const std::vector<std::size_t>& lengths) {
    for (const std::size_t length : lengths) all.push_back(of_length(length));
    for (TestSequence& sequence : all) pointers.push_back(&sequence);
  }
  std::vector<TestSequence> all;
  std::vector<TestSequence*> pointers;
};

void expect_same_sequences(const GraphSequences& got, const GraphSequences& wanted) {
  for (std::size_t i = 0; i < wanted.all.size(); ++i) expect_same_draws(got.all[i], wanted.all[i]);
}

TEST(StepGraphs, RowsAreThoseOfVllm) {
  using Rows = std::vector<std::int32_t>;
  EXPECT_EQ(StepGraphs::rows_of_buckets(1), Rows({1}));
  EXPECT_EQ(StepGraphs::rows_of_buckets(4), Rows({1, 2, 4}));
  EXPECT_EQ(StepGraphs::rows_of_buckets(33), Rows({1, 2, 4, 8, 16, 24, 32, 33}));
  const Rows many = StepGraphs::rows_of_buckets(288);
  EXPECT_EQ(Rows(many.end() - 4, many.end()), Rows({248, 256, 272, 288}));
}

// Steps of 11 sequences, then of 10, down to one, have the buckets 11, 8, 4, 2 and 1.
TEST(StepGraphs, BucketsEndWhereRowsDo) {
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < 11; ++i) lengths.push_back(4 + i % 3);
  const auto run = [&](GraphUse graphs, StepGraphs::Stats& stats) {
    GraphSequences sequences(lengths);
    const auto runner = open_with_graphs("qwen3", graphs);
    Driver driver(*runner, 16);
    EXPECT_TRUE(driver.generate(sequences.pointers, 1).ok());
    for (std::size_t left = 11; left > 0; --left) {
      sequences.pointers.resize(left);
      EXPECT_TRUE(driver.generate(sequences.pointers, 13 - left).ok());
    }
    stats = runner->graph_stats();
    return sequences;
  };
  StepGraphs::Stats none, some;
  const GraphSequences eager = run(GraphUse::off, none), replayed = run(GraphUse::check, some);
  expect_same_sequences(replayed, eager);
  EXPECT_EQ(none.captured + none.replayed, 0);
  EXPECT_EQ(some.captured, 5);
  EXPECT_EQ(some.replayed, 11);
}

// Contexts that grow over a split, and over two; by all kernels of attention, in contexts of one length and
// of several.
TEST(StepGraphs, BucketsEndWhereContextsDo) {
  struct Case {
    const char *model, *dtype;
    AttentionKernels attention;
    std::vector<std::size_t> lengths;
    std::int64_t captured;
  };
  using enum AttentionKernels;
  for (const Case& one :
       {Case{"qwen3", "float32", automatic, {61}, 2}, Case{"qwen3", "bfloat16", tiles, {62, 125, 60}, 2},
        Case{"gemma3", "bfloat16", plain, {126, 3, 4, 5, 6}, 2}}) {
    SCOPED_TRACE(one.model);
    const auto run = [&](GraphUse graphs) {
      const auto runner = open_with_graphs(one.model, graphs, 3, one.dtype, one.attention);
      Driver driver(*runner, 16, runner->kv_plan().groups);
      GraphSequences sequences(one.lengths);
      const Status status = driver.generate(sequences.pointers, 7);
      EXPECT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(runner->graph_stats().captured, graphs == GraphUse::off ? 0 : one.captured);
      return sequences;
    };
    expect_same_sequences(run(GraphUse::check), run(GraphUse::off));
  }
}

// A step with a prompt in it is eager, and so is one with drafts; decode goes on with the graph that there
// is.
TEST(StepGraphs, PromptsAreEager) {
  const auto run = [](GraphUse graphs, StepGraphs::Stats& stats) {
    const auto runner = open_with_graphs("qwen2_moe", graphs);
    Driver driver(*runner, 16);
    GraphSequences sequences({5, 20});
    EXPECT_TRUE(driver.generate({sequences.pointers[0]}, 3).ok());
    EXPECT_TRUE(driver.generate(sequences.pointers, 4, 7).ok());
    EXPECT_TRUE(driver.generate({sequences.pointers[0]}, 6).ok());
    stats = runner->graph_stats();
    return sequences;
  };
  StepGraphs::Stats none, some;
  const GraphSequences eager = run(GraphUse::off, none), replayed = run(GraphUse::automatic, some);
  expect_same_sequences(replayed, eager);
  EXPECT_GE(some.captured, 1);
  EXPECT_LE(some.captured, 2);
  EXPECT_GT(some.replayed, some.captured);
}

TEST(StepGraphs, AnyOrderOfStreams) {
  const auto run = [](GraphUse graphs, std::uint64_t seed) {
    const auto runner = open_with_graphs("qwen3", graphs, seed);
    Driver driver(*runner, 16);
    GraphSequences sequences({5, 9, 14});
    EXPECT_TRUE(driver.generate(sequences.pointers, 4).ok());
    return sequences;
  };
  const GraphSequences eager = run(GraphUse::off, 0);
  for (std::uint64_t seed = 0; seed < num_seeds() / 4; ++seed) {
    SCOPED_TRACE(seed);
    expect_same_sequences(run(GraphUse::automatic, seed), eager);
  }
}

// A device with one array, and steps that add another one to it.
class FewLaunches : public ::testing::Test {
 protected:
  FewLaunches()
      : device_(*device::open_test_device({.seed = 2})),
        stream_(*device_->create_stream()),
        arena_(*device_, stream_),
        ops_(*device_, stream_, arena_, {}) {
    for (float** const array : {&x_[0], &x_[1], &y_}) {
      auto there = ops_.place(std::as_bytes(std::span(values_)), "an array");
      CHECK(there.has_value());
      *array = reinterpret_cast<float*>(*there);
    }
  }
  Status add(const float* x) {
    return device::KernelLaunches(*device_, stream_).add_rows({.x = x, .y = y_, .width = 8}, 1);
  }
  WrittenMemory written() {
    WrittenMemory memory(*device_, stream_);
    memory.add("sum", reinterpret_cast<std::byte*>(y_), sizeof(values_));
    return memory;
  }
  Status run(StepGraphs& graphs, std::int32_t rows, const std::function<Status()>& launch) {
    PAGODA_RETURN_IF_ERROR(graphs.run(ops_, {.rows = rows, .splits = 1}, launch, [&] { return written(); }));
    return device_->synchronize(stream_);
  }
  float sum() {
    const auto content = written().read();
    float first = 0;
    if (content) std::memcpy(&first, content->data(), sizeof(first));
    return first;
  }

  std::array<float, 8> values_ = {1, 2, 3, 4, 5, 6, 7, 8};
  std::unique_ptr<device::Device> device_;
  device::StreamId stream_;
  device::StepArena arena_;
  DeviceOps ops_;
  float *x_[2] = {}, *y_ = nullptr;
};

TEST_F(FewLaunches, TheGraphUsedLongestAgoGoes) {
  StepGraphs graphs(*device_, stream_, GraphUse::automatic, {.rows = 100, .context = 64});
  const auto launch = [&] { return add(x_[0]); };
  for (std::int32_t rows = 1; rows <= StepGraphs::kMostGraphs; ++rows)
    ASSERT_TRUE(run(graphs, rows, launch).ok());
  ASSERT_TRUE(run(graphs, 1, launch).ok());
  EXPECT_EQ(graphs.stats().captured, StepGraphs::kMostGraphs);
  ASSERT_TRUE(run(graphs, 99, launch).ok());
  ASSERT_TRUE(run(graphs, 1, launch).ok());
  EXPECT_EQ(graphs.stats().captured, StepGraphs::kMostGraphs + 1);
  ASSERT_TRUE(run(graphs, 2, launch).ok());
  EXPECT_EQ(graphs.stats().captured, StepGraphs::kMostGraphs + 2);
  EXPECT_EQ(graphs.stats().replayed, StepGraphs::kMostGraphs + 4);
  EXPECT_EQ(sum(), 1 + static_cast<float>(graphs.stats().replayed));
  ASSERT_TRUE(graphs.clear().ok());
}

TEST_F(FewLaunches, TheCheckFindsWhatAGraphDoesNotKnow) {
  StepGraphs graphs(*device_, stream_, GraphUse::check, {.rows = 4, .context = 64});
  const float* x = x_[0];
  const auto launch = [&] { return add(x); };
  ASSERT_TRUE(run(graphs, 2, launch).ok());
  EXPECT_EQ(sum(), 2);  // once, though it ran twice
  x = y_;
  EXPECT_EQ(
      run(graphs, 2, launch).message(),
      "--device-graphs check: the graph of 2 rows, 64 tokens writes other bytes into the sum (at 2 of 32) "
      "than its step does eagerly");
  ASSERT_TRUE(graphs.clear().ok());
}

// An op that brings values, or wants more room than there is, runs eagerly from then on.
TEST_F(FewLaunches, WhatCannotBeCapturedIsEager) {
  for (const bool brings : {true, false}) {
    StepGraphs graphs(*device_, stream_, GraphUse::automatic, {.rows = 4, .context = 64});
    const float before = sum();
    const auto launch = [&]() -> Status {
      if (brings)
        ops_.there(std::vector<std::int32_t>{1, 2});
      else
        ops_.scratch(DeviceOps::Scratch::rows, 64);
      return add(x_[0]);
    };
    for (int i = 1; i <= 2; ++i) {
      ASSERT_TRUE(run(graphs, 2, launch).ok());
      EXPECT_EQ(sum(), before + static_cast<float>(i));
    }
    EXPECT_EQ(graphs.stats().captured, 0);
  }
}

}  // namespace
}  // namespace pagoda::device_runner
