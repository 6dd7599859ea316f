// Goal: a model split over 2 to 4 ranks computes what it computes whole: the goldens' tokens; the same bits
// where ranks gather what they bring; each rank with its own part of the weights only. Method: ranks as
// threads of this process (test_ranks.h) on the committed tiny models and, where they are, the shared ones.
#include "model_runner/distributed_model_runner.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <functional>
#include <map>

#include "model_runner/expect_golden.h"
#include "model_runner/test_ranks.h"
#include "models/read_config.h"

namespace pagoda::testing {
namespace {

RunnerOptions split_options(Backend backend = Backend::cpu) {
  RunnerOptions options;
  options.dtype = "float32";
  options.num_blocks = 200;
  options.max_num_batched_tokens = 512;
  options.backend = backend;
  return options;
}

std::string model_in(const std::string& folder) {
  const std::string gguf = folder + "/model.gguf";
  return std::filesystem::exists(gguf) ? gguf : folder;
}

struct SplitCase {
  const char* name;
  std::int32_t most_ranks;
};
std::string split_case_name(const ::testing::TestParamInfo<SplitCase>& info) { return info.param.name; }

void expect_split_goldens(const std::string& model, const std::string& goldens, std::int32_t most_ranks) {
  for (std::int32_t size = 2; size <= most_ranks; ++size) {
    for (const bool deterministic : {false, true}) {
      SCOPED_TRACE(size);
      TestRanks ranks(model, split_options(), size, deterministic);
      ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
      std::size_t done = 0;
      for (const boost::json::object& line : read_json_lines(goldens)) {
        if (line.at("prompt_ids").as_array().size() > 64 || ++done > 4) continue;
        expect_golden(*ranks.runner, 16, line);
      }
      ranks.join();
      for (const Status& status : ranks.statuses) EXPECT_TRUE(status.ok()) << status.message();
    }
  }
}

class SplitFixture : public ::testing::TestWithParam<SplitCase> {};
TEST_P(SplitFixture, GivesTheGoldensTokens) {
  const std::string folder = fixture(GetParam().name);
  expect_split_goldens(model_in(folder), folder + "/golden.jsonl", GetParam().most_ranks);
}
constexpr SplitCase kSplitFixtures[] = {{"opt", 4},
                                        {"opt_post_norm", 4},
                                        {"gpt2", 4},
                                        {"gpt2_no_prefix", 4},
                                        {"llama", 4},
                                        {"mistral", 4},
                                        {"qwen2", 4},
                                        {"qwen3", 4},
                                        {"gemma3", 4},
                                        {"granite", 4},
                                        {"phi3", 2},
                                        {"smollm3", 4},
                                        {"qwen2_moe", 4},
                                        {"qwen3_moe", 4},
                                        {"mixtral", 4},
                                        {"llama_gguf_f16", 2},
                                        {"llama_gguf_quantized", 2}};
INSTANTIATE_TEST_SUITE_P(Models, SplitFixture, ::testing::ValuesIn(kSplitFixtures), split_case_name);

class SplitShared : public ::testing::TestWithParam<SplitCase> {};
TEST_P(SplitShared, GivesTheGoldensTokens) {
  const auto folder = shared_data(std::string("models/") + GetParam().name);
  if (!folder) GTEST_SKIP() << "no shared test data: set PAGODA_SHARED_DATA";
  const bool stories = std::string_view(GetParam().name) == "stories260K";
  expect_split_goldens(*folder, *folder + (stories ? "/golden_greedy_sample.jsonl" : "/golden.jsonl"), 4);
}
constexpr SplitCase kShared[] = {{"tiny_opt", 4},       {"tiny_gpt2", 4},   {"tiny_llama", 4},
                                 {"tiny_mistral", 4},   {"tiny_qwen2", 4},  {"tiny_qwen3", 4},
                                 {"tiny_gemma3", 4},    {"stories260K", 4}, {"tiny_qwen2_moe", 4},
                                 {"tiny_qwen3_moe", 4}, {"tiny_mixtral", 4}};
INSTANTIATE_TEST_SUITE_P(Models, SplitShared, ::testing::ValuesIn(kShared), split_case_name);

// Log-probabilities of prompts and greedy continuations, chunked and together, as bits.
std::vector<std::uint32_t> bits_of(ModelRunner& runner, std::int32_t vocab_size) {
  std::vector<TestSequence> sequences;
  for (std::int32_t i = 0; i < 3; ++i) {
    std::vector<TokenId> prompt;
    for (std::int32_t t = 0; t < 5 + 9 * i; ++t) prompt.push_back((7 + 31 * t + 5 * i * t) % vocab_size);
    sequences.push_back(greedy(std::move(prompt)));
    sequences.back().prompt_logprobs = 3;
  }
  Driver driver(runner, 16);
  std::vector<TestSequence*> all;
  for (TestSequence& sequence : sequences) all.push_back(&sequence);
  const Status status = driver.generate(all, 12, 10);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::uint32_t> bits;
  const auto add = [&](float value) { bits.push_back(std::bit_cast<std::uint32_t>(value)); };
  for (const TestSequence& sequence : sequences) {
    for (const TokenLogprobs& score : sequence.prompt_scores) {
      add(score.chosen.logprob);
      for (const TokenLogprob& top : score.top) add(top.logprob);
    }
    for (const Candidate& sampled : sequence.sampled) {
      bits.push_back(static_cast<std::uint32_t>(sampled.token));
      add(sampled.logprob);
    }
    for (const auto& step : sequence.top) {
      for (const TokenLogprob& top : step) add(top.logprob);
    }
  }
  return bits;
}

std::vector<std::uint32_t> bits_of_one_process(const std::string& model, const RunnerOptions& options) {
  auto source = ModelSource::open(model);
  EXPECT_TRUE(source.has_value());
  auto whole = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  EXPECT_TRUE(whole.has_value()) << whole.error().message();
  return bits_of(**whole, (*whole)->config().vocab_size);
}

void expect_bits_of_one_process(const std::string& model, const RunnerOptions& options,
                                std::initializer_list<std::int32_t> sizes) {
  const std::vector<std::uint32_t> expected = bits_of_one_process(model, options);
  ASSERT_FALSE(expected.empty());
  for (const std::int32_t size : sizes) {
    TestRanks ranks(model, options, size);
    ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
    EXPECT_TRUE(bits_of(*ranks.runner, ranks.runner->local().config().vocab_size) == expected)
        << size << " ranks, " << options.dtype;
  }
}

class GatheringRanks : public ::testing::TestWithParam<SplitCase> {};
TEST_P(GatheringRanks, GiveTheBitsOfOneProcess) {
  const std::string model = model_in(fixture(GetParam().name));
  for (const Backend backend : {Backend::cpu, Backend::reference}) {
    RunnerOptions options = split_options(backend);
    for (const char* dtype : {"float32", "auto", "bfloat16", "int8"}) {
      if (backend == Backend::reference && options.dtype != dtype) continue;
      options.dtype = dtype;
      if (GetParam().most_ranks == 4)
        expect_bits_of_one_process(model, options, {1, 2, 3, 4});
      else
        expect_bits_of_one_process(model, options, {1, 2});
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Models, GatheringRanks, ::testing::ValuesIn(kSplitFixtures), split_case_name);

TEST(GatheringRanksOfTheDefaultModel, GiveTheBitsOfOneProcess) {
  const auto model = default_model_file();
  if (!model) GTEST_SKIP() << "no default model (PAGODA_MODEL)";
  RunnerOptions options = split_options();
  options.dtype = "auto";  // quantised
  options.max_num_batched_tokens = 64;
  expect_bits_of_one_process(*model, options, {2, 3, 4});
}

TEST(Split, EachRankHasItsPartOfTheWeightsOnly) {
  const std::string model = fixture("mistral");
  RunnerOptions options = split_options();
  auto source = ModelSource::open(model);
  ASSERT_TRUE(source.has_value());
  auto whole = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  ASSERT_TRUE(whole.has_value());
  const MemoryPlan plan = (*whole)->memory_plan();
  for (const std::int32_t size : {2, 4}) {
    TestRanks ranks(model, options, size);
    ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
    const auto& local = dynamic_cast<const LocalModelRunner&>(ranks.runner->local());
    // Strips of 16 outputs are padded: of 32, 4 ranks have 8 each, which take as much as 16.
    EXPECT_LT(local.memory_plan().weight_bytes, plan.weight_bytes * 0.75);
    EXPECT_EQ(local.embedding_bytes() * size, (*whole)->embedding_bytes());
    const std::int64_t expected = std::max(1, kv_heads((*whole)->config())->num_kv_heads / size);
    EXPECT_EQ(local.kv_layout().num_kv_heads, expected);
    EXPECT_EQ(ranks.runner->totals().kv_block_bytes,
              size * static_cast<std::int64_t>(local.kv_layout().block_bytes()));
  }
}

TEST(Split, OfTheDefaultModelIsHalfTheBytes) {
  const auto model = default_model_file();
  if (!model) GTEST_SKIP() << "no default model (PAGODA_MODEL)";
  RunnerOptions options;
  options.max_num_batched_tokens = 64;
  auto source = ModelSource::open(*model);
  ASSERT_TRUE(source.has_value());
  auto whole = LocalModelRunner::create(std::shared_ptr<const ModelSource>(*std::move(source)), options);
  ASSERT_TRUE(whole.has_value());
  TestRanks ranks(*model, options, 2);
  ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
  const double total = static_cast<double>((*whole)->memory_plan().weight_bytes);
  EXPECT_NEAR(static_cast<double>(ranks.runner->totals().weight_bytes) / total, 1.0, 0.01);
  // 9 heads over 3 key-value heads: one rank has 1 of the 3.
  EXPECT_NEAR(static_cast<double>(ranks.runner->local().memory_plan().weight_bytes) / total, 0.5, 0.06);
}

// A file whose matrices cannot be touched, but for `rows` of each: any other read ends the program.
class GuardedSource final : public ModelSource {
 public:
  // rows_of: the rows of a tensor that may be read.
  GuardedSource(std::shared_ptr<const ModelSource> whole,
                const std::function<Range(const std::string&, const TensorView&)>& rows_of)
      : whole_(std::move(whole)) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (const std::string& name : whole_->tensor_names()) {
      TensorView view = *whole_->find(name);
      const std::size_t bytes = (view.bytes() + page - 1) / page * page;
      void* const memory =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      CHECK(memory != MAP_FAILED);
      mapped_.push_back({memory, bytes});
      auto* const copy = static_cast<std::byte*>(memory);
      std::memcpy(copy, view.data, view.bytes());
      const Range rows = rows_of(name, view);
      const auto first =
          static_cast<std::size_t>(dtype_bytes(view.dtype, rows.first * view.columns())) / page * page;
      const auto end = std::min(
          bytes, (static_cast<std::size_t>(dtype_bytes(view.dtype, rows.end() * view.columns())) + page - 1) /
                     page * page);
      CHECK(mprotect(copy, first, PROT_NONE) == 0);
      CHECK(mprotect(copy + end, bytes - end, PROT_NONE) == 0);
      guarded_bytes += static_cast<std::int64_t>(first + bytes - end);
      all_bytes += static_cast<std::int64_t>(bytes);
      view.data = copy;
      tensors_[name] = view;
    }
  }
  ~GuardedSource() override {
    for (const auto& [memory, bytes] : mapped_) munmap(memory, bytes);
  }
  ModelFormat format() const override { return whole_->format(); }
  std::string_view config_json() const override { return whole_->config_json(); }
  const TensorView* find(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> tensor_names() const override { return whole_->tensor_names(); }
  const GgufFile* gguf() const override { return whole_->gguf(); }
  const std::string& path() const override { return whole_->path(); }

  std::int64_t guarded_bytes = 0, all_bytes = 0;

 private:
  std::shared_ptr<const ModelSource> whole_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<std::pair<void*, std::size_t>> mapped_;
};

TEST(Split, ARankReadsNoRowOfAnother) {
  const auto model = default_model_file();
  if (!model) GTEST_SKIP() << "no default model (PAGODA_MODEL)";
  auto opened = ModelSource::open(*model);
  ASSERT_TRUE(opened.has_value());
  const std::shared_ptr<const ModelSource> source = *std::move(opened);
  const auto written = read_model_config(*source);
  ASSERT_TRUE(written.has_value());
  DecoderConfig config = written->decoder;
  const WeightNames names = written->names(source->format());
  config.tied_head = source->find(names.head + ".weight") == nullptr;
  for (const auto& [rank, exchange] : {std::pair(0, ExchangeKind::gather), std::pair(1, ExchangeKind::gather),
                                       std::pair(0, ExchangeKind::sum), std::pair(1, ExchangeKind::sum)}) {
    const auto shard = plan_shard(config, column_blocks(*source, names, config, "auto"), rank, 2, exchange);
    ASSERT_TRUE(shard.has_value());
    const auto rows_of = [&](const std::string& name, const TensorView& view) -> Range {
      const auto is = [&](const std::string& part) { return name.ends_with(part + ".weight"); };
      const std::int64_t columns = view.columns();
      CHECK(columns > 0 && config.layers.front().attention() != nullptr);
      const LayerShard& layer = shard->layers.front();  // all are alike
      const std::int64_t head_size = config.layers.front().attention()->head_size;
      const auto heads = [&](Range range) { return Range{range.first * head_size, range.count * head_size}; };
      if (name == names.token_embedding + ".weight") return shard->own_vocab();
      if (is(names.query)) return heads(layer.heads.query);
      if (is(names.key) || is(names.value)) return heads(layer.heads.kv);
      if (is(names.gate) || is(names.up)) return layer.inner.own;
      if (exchange == ExchangeKind::gather && (is(names.attention_output) || is(names.down)))
        return layer.hidden;
      // Norms are everywhere; columns lie side by side in a page.
      return {0, view.elements() / columns};
    };
    const GuardedSource guarded(source, rows_of);
    EXPECT_GT(guarded.guarded_bytes, guarded.all_bytes / 4);
    KernelContext context;
    auto weights = load_decoder_weights({context, guarded, names, config, *shard, "auto"});
    ASSERT_TRUE(weights.has_value()) << weights.error().message();
  }
}

TEST(Split, WhatCannotBeCutIsRefusedByName) {
  const auto error = [](const std::string& model, const std::string& dtype, std::int32_t size,
                        bool deterministic = true) {
    RunnerOptions options = split_options();
    options.dtype = dtype;
    TestRanks ranks(model, options, size, deterministic);
    EXPECT_EQ(ranks.runner, nullptr);
    return ranks.status.message();
  };
  const std::string opt = error(fixture("opt"), "float32", 5);
  EXPECT_NE(opt.find("over 5 ranks: 4 attention heads"), std::string::npos) << opt;
  const std::string quantized = error(fixture("llama_gguf_quantized") + "/model.gguf", "auto", 2, false);
  EXPECT_NE(quantized.find("blocks of 32 columns"), std::string::npos) << quantized;
}

// A rank that gives up between steps fails the next one, and every rank ends.
TEST(Split, ALostRankFailsTheStepOnEveryRank) {
  TestRanks ranks(fixture("llama"), split_options(), 4);
  ASSERT_TRUE(ranks.status.ok());
  TestSequence sequence = greedy({1, 2, 3});
  Driver driver(*ranks.runner, 16);
  ASSERT_TRUE(driver.step({&sequence}, 16).ok());
  ranks.communicators[2]->abort("lost");
  sequence.tokens.push_back(sequence.sampled.back().token);
  const Status status = driver.step({&sequence}, 16);
  EXPECT_NE(status.message().find("rank 2 gave up: lost"), std::string::npos) << status.message();
  ranks.join();
  for (std::size_t rank = 1; rank < ranks.statuses.size(); ++rank)
    EXPECT_FALSE(ranks.statuses[rank].ok()) << rank;
}

TEST(Split, ABrokenBatchEndsTheGroupWithAMessage) {
  TestRanks ranks(fixture("llama"), split_options(), 2);
  ASSERT_TRUE(ranks.status.ok());
  ScheduledBatch batch;
  batch.block_copies.push_back({BlockId{0}, BlockId{5000}});
  const StepResult result = ranks.runner->run(batch);
  EXPECT_EQ(result.status.code(), StatusCode::internal);
  ranks.join();
  EXPECT_FALSE(ranks.statuses[1].ok());
}

}  // namespace
}  // namespace pagoda::testing
