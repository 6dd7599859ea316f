// Goal: a request that names an adapter gets what PEFT gives with it, and what the model gives with the
// adapter merged into it, in every family and from both kinds of file; others in its batches do not see it;
// and nothing that an adapter changes is left out in silence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <set>

#include "loader/adapter.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"
#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"
#include "models/decoder/decoder.h"
#include "models/read_config.h"
#include "models/weights/adapted_weights.h"
#include "models/weights/adapter_set.h"

namespace pagoda::testing {
namespace {

const std::string kAdapterFixtures = PAGODA_SOURCE_DIR "/tests/fixtures/";
const std::string kAdapters = kAdapterFixtures + "adapters/";

struct RunnerKind {
  Backend backend = Backend::cpu;
  std::int32_t threads = 1;
  std::string dtype = "float32";
};

std::unique_ptr<LocalModelRunner> adapted_runner(Result<std::unique_ptr<ModelSource>> source,
                                                 std::shared_ptr<AdapterSet> adapters,
                                                 const RunnerKind& kind = {}) {
  RunnerOptions options = family_options();
  options.dtype = kind.dtype;
  options.threads = kind.threads;
  options.backend = kind.backend;
  options.num_blocks = 400;
  options.adapters = std::move(adapters);
  return new_runner(std::move(source), options);
}

std::shared_ptr<AdapterSet> new_set() {
  return std::make_shared<AdapterSet>(AdapterLimits{.max_adapters = 3, .max_rank = 8});
}

// Adapters as PEFT made them; those with more than products say what a request cannot choose.
class PeftAdapters : public ::testing::TestWithParam<std::string> {};

TEST_P(PeftAdapters, AnswerAsPeftDoesOrAreRefused) {
  const std::map<std::string, std::string> refusals = {
      {"dora", "(DoRA)"},
      {"lora_bias", "bias"},
      {"all_biases", "replaces"},
      {"embedding", "embed_tokens.weight', which an adapter that requests choose cannot: merge"},
      {"tied_embedding", "embed_tokens.weight', which an adapter that requests choose cannot: merge"},
      {"saved_modules", "(modules_to_save)"},
      {"saved_norms", "(modules_to_save)"},
      {"with_adapter_name", "(modules_to_save)"}};
  const boost::json::object golden = read_json_lines(kAdapters + GetParam() + "/golden.jsonl").front();
  const std::string model = kAdapterFixtures + "tiny_models/" + std::string(golden.at("model").as_string());
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const auto set = new_set();
    const auto runner = adapted_runner(ModelSource::open(model), set, {.backend = backend});
    ASSERT_NE(runner, nullptr);
    auto adapter = Adapter::open(kAdapters + GetParam(), 1, {});
    ASSERT_TRUE(adapter) << adapter.error().message();
    const auto added = set->add("own", *adapter);
    if (const auto refusal = refusals.find(GetParam()); refusal != refusals.end()) {
      ASSERT_FALSE(added);
      EXPECT_EQ(added.error().code(), StatusCode::unimplemented);
      EXPECT_NE(added.error().message().find(refusal->second), std::string::npos) << added.error().message();
      EXPECT_TRUE(set->list().empty());
      continue;
    }
    ASSERT_TRUE(added) << added.error().message();
    expect_golden(Driver(*runner), golden, kGoldenTolerance, (*added)->id);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PeftAdapters, ::testing::ValuesIn(folders_with(kAdapters, "golden.jsonl")),
                         [](const auto& info) { return info.param; });

// The tensors that a request's adapter may change, and their shapes, as it is beside the model.
std::vector<AdapterTargetPart> adaptable(const std::string& model) {
  const auto source = ModelSource::open(model);
  CHECK(source.has_value());
  const auto info = read_model_config(**source);
  CHECK(info.has_value());
  const WeightNames names = info->names((*source)->format());
  DecoderConfig config = info->decoder;
  config.tied_head = head_is_tied(**source, names, config);
  const auto shard = plan_shard(config, {}, 0, 1, ExchangeKind::sum);
  CHECK(shard.has_value());
  const KernelContext context{.backend = Backend::reference};
  const auto weights =
      load_decoder_weights({context, **source, names, config, *shard, "float32"}, WeightStore::checking());
  CHECK(weights.has_value());
  std::map<std::string, std::vector<AdapterTargetPart>> parts;
  for (const auto& matrix : weights->adapter_targets.matrices)
    for (const AdapterTargetPart& part : matrix) parts[part.tensor].push_back(part);
  std::vector<AdapterTargetPart> whole;
  for (const auto& [name, of_tensor] : parts) {
    std::set<std::int64_t> rows;
    for (const AdapterTargetPart& part : of_tensor)
      for (std::int64_t row = 0; row < part.rows; ++row) rows.insert(part.first_row + row);
    if (std::ssize(rows) == of_tensor.front().tensor_rows) whole.push_back(of_tensor.front());
  }
  return whole;
}

// An adapter of all of them, of a rank that differs by tensor, written as PEFT or as llama.cpp does.
std::string write_adapter(const std::string& model, std::int64_t seed, const std::string& where,
                          const std::string& without = "") {
  std::vector<AdapterTargetPart> parts = adaptable(model);
  std::erase_if(parts, [&](const auto& part) { return part.tensor == without; });
  const bool gguf = model.ends_with(".gguf");
  bool transposed = false;
  for (const AdapterTargetPart& part : parts) transposed |= part.transposed;
  // PEFT's file says for all tensors together which way round they lie.
  if (transposed) std::erase_if(parts, [](const auto& part) { return !part.transposed; });
  std::vector<FamilyTensor> tensors;
  GgufBuilder builder;
  builder.string("general.type", "adapter").string("adapter.type", "lora");
  builder.f32("adapter.lora.alpha", 2);
  if (gguf) {
    const auto source = ModelSource::open(model);
    builder.string("general.architecture", *(*source)->gguf()->string("general.architecture"));
  }
  std::int64_t index = seed;
  for (const AdapterTargetPart& part : parts) {
    const std::int64_t rank = 1 + ++index % 5;
    const std::string module = part.tensor.substr(0, part.tensor.size() - std::string(".weight").size());
    const auto values = [&](const char* which, std::int64_t count) {
      return family_weights(seed, module + which, count, 0, 0.2);
    };
    const std::vector<float> a = values(".A", rank * part.columns), b = values(".B", part.tensor_rows * rank);
    if (gguf) {
      const auto extent = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
      builder.tensor(part.tensor + ".lora_a", {extent(part.columns), extent(rank)}, 0, floats_of(a));
      builder.tensor(part.tensor + ".lora_b", {extent(rank), extent(part.tensor_rows)}, 0, floats_of(b));
    } else {
      tensors.push_back({"base_model.model." + module + ".lora_A.weight", {rank, part.columns}, a});
      tensors.push_back({"base_model.model." + module + ".lora_B.weight", {part.tensor_rows, rank}, b});
    }
  }
  if (parts.empty()) return "";
  std::filesystem::create_directories(where);
  if (gguf) {
    std::ofstream(where + "/adapter.gguf", std::ios::binary) << builder.build();
    return where + "/adapter.gguf";
  }
  std::ofstream(where + "/adapter_config.json")
      << R"({"peft_type": "LORA", "lora_alpha": 2, "fan_in_fan_out": )" << (transposed ? "true" : "false")
      << "}";
  write_safetensors(where + "/adapter_model.safetensors", tensors);
  return where;
}

class FamilyAdapters : public ::testing::TestWithParam<std::string> {
 protected:
  FamilyAdapters() {
    write_family(GetParam(), folder_.path() + "/model");
    std::filesystem::create_directories(folder_.path() + "/gguf");
    const boost::json::object family = read_family(GetParam());
    for (const boost::json::value& line : family.at("goldens").as_array())
      prompts_.push_back(ids_of(line.as_object().at("prompt_ids")));
  }
  std::vector<std::string> models() const {
    std::vector<std::string> out = {folder_.path() + "/model"};
    if (std::string gguf = write_family_gguf(GetParam(), folder_.path() + "/gguf"); !gguf.empty())
      out.push_back(std::move(gguf));
    return out;
  }
  TestSequence sequence(std::size_t prompt, AdapterId adapter) const {
    TestSequence out = greedy(prompts_[prompt % prompts_.size()]);
    out.adapter = adapter;
    out.prompt_logprobs = 3;
    return out;
  }
  static void expect_near(const TestSequence& got, const TestSequence& want, double tolerance) {
    ASSERT_EQ(got.prompt_scores.size(), want.prompt_scores.size());
    for (std::size_t i = 0; i < want.prompt_scores.size(); ++i)
      EXPECT_NEAR(got.prompt_scores[i].chosen.logprob, want.prompt_scores[i].chosen.logprob, tolerance) << i;
  }
  static bool same_scores(const TestSequence& one, const TestSequence& other) {
    for (std::size_t i = 0; i < one.prompt_scores.size(); ++i)
      if (one.prompt_scores[i].chosen.logprob != other.prompt_scores[i].chosen.logprob) return false;
    return true;
  }

  ScratchFolder folder_;
  std::vector<std::vector<TokenId>> prompts_;
};

TEST_P(FamilyAdapters, AreTheMergedOnes) {
  for (const std::string& model : models()) {
    SCOPED_TRACE(model);
    std::string path = write_adapter(model, 1, folder_.path() + "/adapter");
    if (path.empty()) continue;
    const auto adapter = [&] { return *Adapter::open(path, 1, {}); };
    const auto merge = [&] {
      auto source = ModelSource::open(model);
      CHECK(source.has_value());
      return with_adapter(*std::move(source), adapter());
    };
    // Merging knows heads that are the embedding by the embedding's usual names alone.
    if (const auto source = merge();
        !source && source.error().message().find("'lm_head") != std::string::npos)
      path = write_adapter(model, 1, folder_.path() + "/adapter", "lm_head.weight");
    const auto merged = adapted_runner(merge(), nullptr);
    ASSERT_NE(merged, nullptr);
    TestSequence want = sequence(0, kNoAdapter);
    ASSERT_TRUE(Driver(*merged).step({&want}, 1 << 20).ok());
    for (const Backend backend : {Backend::reference, Backend::cpu}) {
      const auto set = new_set();
      const auto runner = adapted_runner(ModelSource::open(model), set, {.backend = backend});
      ASSERT_NE(runner, nullptr);
      const auto added = set->add("own", adapter());
      ASSERT_TRUE(added) << added.error().message();
      TestSequence got = sequence(0, (*added)->id), plain = sequence(0, kNoAdapter);
      ASSERT_TRUE(Driver(*runner).step({&got}, 1 << 20).ok());
      expect_near(got, want, 1e-4);
      ASSERT_TRUE(Driver(*runner).step({&plain}, 1 << 20).ok());
      EXPECT_FALSE(same_scores(got, plain)) << "the adapter changes nothing";
      if (HasFailure()) return;
    }
  }
}

// Alone in one chunk on one thread; then together with two other adapters and none, in small chunks, on three
// threads. Without an adapter a sequence has the bits that a runner without any gives.
TEST_P(FamilyAdapters, GiveBitsThatDependOnTheSequenceAlone) {
  const std::string model = folder_.path() + "/model";
  std::vector<std::string> paths;
  for (const std::int64_t seed : {1, 2})
    paths.push_back(write_adapter(model, seed, folder_.path() + "/adapter" + std::to_string(seed)));
  if (paths.front().empty()) return;
  for (const std::string dtype : {"float32", "bfloat16", "int8"}) {
    SCOPED_TRACE(dtype);
    const auto set = new_set();
    const auto one = adapted_runner(ModelSource::open(model), set, {.threads = 1, .dtype = dtype}),
               three = adapted_runner(ModelSource::open(model), set, {.threads = 3, .dtype = dtype}),
               without = adapted_runner(ModelSource::open(model), nullptr, {.threads = 1, .dtype = dtype});
    ASSERT_TRUE(one != nullptr && three != nullptr && without != nullptr);
    std::vector<AdapterId> ids = {kNoAdapter};
    for (const std::string& path : paths) {
      const auto added = set->add(path, *Adapter::open(path, 1, {}));
      ASSERT_TRUE(added) << added.error().message();
      ids.push_back((*added)->id);
    }
    std::vector<TestSequence> alone, together;
    for (std::size_t i = 0; i < 6; ++i) alone.push_back(sequence(i / 3, ids[i % 3]));
    together = alone;
    for (TestSequence& each : alone)
      ASSERT_TRUE(Driver(each.adapter == kNoAdapter ? *without : *one).generate({&each}, 5).ok());
    std::vector<TestSequence*> all;
    for (TestSequence& each : together) all.push_back(&each);
    ASSERT_TRUE(Driver(*three).generate(all, 5, 7).ok());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      SCOPED_TRACE(i);
      expect_same_draws(together[i], alone[i]);
      EXPECT_TRUE(same_scores(together[i], alone[i]));
    }
    EXPECT_FALSE(same_scores(alone[0], alone[1]) || same_scores(alone[1], alone[2]));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyAdapters, ::testing::ValuesIn(all_families()),
                         [](const auto& info) { return info.param; });

// Matrices in blocks of GGUF, as floats and multiplied in 8 bits: what is added is the same.
TEST(RequestAdapters, StandBesideQuantisedMatrices) {
  const std::string model = kAdapterFixtures + "tiny_models/llama_gguf_quantized/model.gguf";
  const ScratchFolder folder;
  const std::string path = write_adapter(model, 1, folder.path());
  const auto run = [&](const RunnerKind& kind) {
    const auto set = new_set();
    const auto runner = adapted_runner(ModelSource::open(model), set, kind);
    const auto added = set->add("own", *Adapter::open(path, 1, {}));
    EXPECT_TRUE(added) << added.error().message();
    TestSequence out = greedy({5, 9, 2, 7, 30, 11});
    out.adapter = (*added)->id;
    out.prompt_logprobs = 1;
    EXPECT_TRUE(Driver(*runner).step({&out}, 1 << 20).ok());
    return out;
  };
  auto source = ModelSource::open(model);
  ASSERT_TRUE(source) << source.error().message();
  const auto merged = adapted_runner(with_adapter(*std::move(source), *Adapter::open(path, 1, {})), nullptr);
  ASSERT_NE(merged, nullptr);
  TestSequence of_merged = greedy({5, 9, 2, 7, 30, 11});
  of_merged.prompt_logprobs = 1;
  ASSERT_TRUE(Driver(*merged).step({&of_merged}, 1 << 20).ok());
  const TestSequence in_float32 = run({.threads = 2});
  const TestSequence fast = run({.threads = 2, .dtype = "auto"}),
                     slow = run({.backend = Backend::reference, .dtype = "auto"});
  for (std::size_t i = 0; i < fast.prompt_scores.size(); ++i) {
    EXPECT_NEAR(fast.prompt_scores[i].chosen.logprob, slow.prompt_scores[i].chosen.logprob, 1e-3) << i;
    // Merged matrices are rounded to bfloat16.
    EXPECT_NEAR(in_float32.prompt_scores[i].chosen.logprob, of_merged.prompt_scores[i].chosen.logprob, 0.15)
        << i;
  }
}

class AdaptersOfLlama : public ::testing::Test {
 protected:
  void SetUp() override {
    runner = adapted_runner(ModelSource::open(kAdapterFixtures + "tiny_models/llama"), set);
    ASSERT_NE(runner, nullptr);
  }
  static Adapter plain(float scale = 1) { return *Adapter::open(kAdapters + "plain", scale, {}); }
  std::shared_ptr<AdapterSet> set = new_set();
  std::unique_ptr<LocalModelRunner> runner;
};

TEST_F(AdaptersOfLlama, AreKnownByNameAndStayForWhoHoldsThem) {
  auto first = set->add("first", plain());
  ASSERT_TRUE(first);
  EXPECT_EQ((*first)->rank, 3);
  EXPECT_EQ((*first)->path, kAdapters + "plain");
  EXPECT_FALSE((*first)->identity.empty());
  EXPECT_EQ(set->add("first", plain()).error().code(), StatusCode::already_exists);
  const auto second = set->add("first", plain(0.5f), AdapterSet::IfLoaded::replace);
  ASSERT_TRUE(second);
  EXPECT_NE((*second)->id, (*first)->id);
  EXPECT_NE((*second)->identity, (*first)->identity);
  EXPECT_EQ(set->find("first"), *second);
  const AdapterId old = (*first)->id;
  EXPECT_NE(set->find(old), nullptr) << "it is still held";
  TestSequence sequence = greedy({1, 2, 3});
  sequence.adapter = old;
  EXPECT_TRUE(Driver(*runner).step({&sequence}, 10).ok());
  first->reset();
  EXPECT_EQ(set->find(old), nullptr);
  EXPECT_TRUE(set->remove("first"));
  EXPECT_FALSE(set->remove("first"));
  EXPECT_NE(set->find((*second)->id), nullptr);
}

TEST_F(AdaptersOfLlama, AreLimited) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(set->add(name, plain()));
  EXPECT_EQ(set->add("d", plain()).error().code(), StatusCode::resource_exhausted);
  EXPECT_TRUE(set->add("c", plain(), AdapterSet::IfLoaded::replace));
  EXPECT_EQ(set->list().size(), 3u);
  const auto narrow = std::make_shared<AdapterSet>(AdapterLimits{.max_adapters = 1, .max_rank = 2});
  const auto other = adapted_runner(ModelSource::open(kAdapterFixtures + "tiny_models/llama"), narrow);
  const auto refused = narrow->add("a", plain());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("its rank is 3"), std::string::npos) << refused.error().message();
}

// All that is taken is counted, for as long as anyone holds it; what does not fit leaves all as it was.
TEST_F(AdaptersOfLlama, AreBytesOfAnAccount) {
  MemoryBudget memory(1 << 20);
  ASSERT_TRUE(set->add("a", plain()));
  const std::int64_t one = set->loaded_bytes();
  const auto account = *memory.add_account("adapters", one, 3 * one);
  set->set_memory(memory, account);
  const auto used = [&] { return memory.account(account).used; };
  EXPECT_EQ(used(), one);
  const AdapterFactors& factors = *set->find(set->find("a")->id);
  std::int64_t bytes = 0;
  for (const LowRank& each : factors.matrices) bytes += each.bytes();
  EXPECT_EQ(one, bytes) << "what it says that it takes";
  auto held = *set->add("b", plain());
  EXPECT_EQ(used(), 2 * one);
  const auto refused = set->add("c", plain());
  ASSERT_FALSE(refused) << "while it is loaded, an adapter takes more than it does then";
  EXPECT_EQ(refused.error().code(), StatusCode::resource_exhausted);
  EXPECT_NE(refused.error().message().find("bytes of memory"), std::string::npos);
  EXPECT_EQ(set->list().size(), 2u);
  EXPECT_EQ(used(), 2 * one);
  EXPECT_TRUE(set->remove("b"));
  EXPECT_EQ(used(), 2 * one) << "somebody holds it";
  held.reset();
  EXPECT_EQ(used(), one);
  EXPECT_TRUE(set->add("a", plain(), AdapterSet::IfLoaded::replace));
  EXPECT_EQ(used(), one);
  EXPECT_TRUE(set->remove("a"));
  EXPECT_EQ(used(), 0);
}

TEST_F(AdaptersOfLlama, OfOtherModelsAreRefusedByName) {
  const auto refusal = [&](const std::string& model) {
    const auto others = new_set();
    const auto other = adapted_runner(ModelSource::open(kAdapterFixtures + "tiny_models/" + model), others);
    const auto added = others->add("a", plain());
    return added ? std::string("added") : added.error().message();
  };
  EXPECT_NE(refusal("gpt2").find("which the model does not have"), std::string::npos) << refusal("gpt2");
  EXPECT_NE(refusal("qwen3").find("it is of another model"), std::string::npos) << refusal("qwen3");
  EXPECT_NE(refusal("llama_gguf_f16/model.gguf").find("the model is a GGUF file"), std::string::npos);
  EXPECT_NE(new_set()->add("a", plain()).error().message().find("not loaded"), std::string::npos);
}

// Weights come back after sleep, adapters never went.
TEST_F(AdaptersOfLlama, StayWhileTheModelSleeps) {
  const std::string model = kAdapterFixtures + "tiny_models/llama";
  const auto open = [&]() -> Result<std::shared_ptr<const ModelSource>> {
    auto source = ModelSource::open(model);
    if (!source) return source.error();
    return std::shared_ptr<const ModelSource>(*std::move(source));
  };
  RunnerOptions options;
  options.num_blocks = 100;
  options.adapters = set;
  options.reopen = open;
  auto sleeper = LocalModelRunner::create(*open(), options);
  ASSERT_TRUE(sleeper) << sleeper.error().message();
  const auto added = set->add("own", plain());
  ASSERT_TRUE(added) << added.error().message();
  std::vector<TestSequence> drawn;
  for (int turn = 0; turn < 2; ++turn) {
    drawn.push_back(greedy({1, 2, 3}));
    drawn.back().adapter = (*added)->id;
    ASSERT_TRUE(Driver(**sleeper).generate({&drawn.back()}, 4).ok());
    ASSERT_TRUE((*sleeper)->release_memory(ModelRunner::KvContent::drop).ok());
    ASSERT_TRUE((*sleeper)->load_weights().ok());
  }
  expect_same_draws(drawn[1], drawn[0]);
}

TEST_F(AdaptersOfLlama, AnIdThatNobodyHoldsEndsTheStepWithAMessage) {
  TestSequence sequence = greedy({1, 2, 3});
  sequence.adapter = AdapterId{1 << 30};
  const Status status = Driver(*runner).step({&sequence}, 10);
  EXPECT_EQ(status.code(), StatusCode::internal);
  EXPECT_NE(status.message().find("an adapter that this runner does not have"), std::string::npos);
  const auto without = adapted_runner(ModelSource::open(kAdapterFixtures + "tiny_models/llama"), nullptr);
  EXPECT_FALSE(Driver(*without).step({&sequence}, 10).ok());
}

}  // namespace
}  // namespace pagoda::testing
