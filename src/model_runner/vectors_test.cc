// Goal: models that make vectors make those that transformers makes, whatever the way of pooling, and a
// vector depends on its own text alone: not on what is packed beside it, on chunks or on threads. The
// fixtures are made by tests/fixtures/make_encoders.py.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <numeric>

#include "base/strings.h"
#include "model_runner/family_model.h"
#include "model_runner/local_model_runner.h"
#include "models/read_config.h"

namespace pagoda::testing {
namespace {

constexpr const char* kModels[] = {"bert",
                                   "bert_cross",
                                   "bert_dense",
                                   "xlm_roberta",
                                   "xlm_roberta_classes",
                                   "nomic_bert",
                                   "nomic_bert_moe",
                                   "nomic_bert_moe_unbiased",
                                   "modern_bert",
                                   "modern_bert_cross",
                                   "modern_bert_mean",
                                   "gemma_embedding",
                                   "qwen3",
                                   "qwen3_classes"};
constexpr std::int32_t kMaxTokens = 512, kBlock = 16;

struct Text {
  std::vector<TokenId> ids;
  std::int32_t second = 0;
  std::vector<BlockId> blocks;  // decoders' blocks
};

class Vectors : public ::testing::TestWithParam<const char*> {
 protected:
  Vectors()
      : model_(read_family(std::string("../encoders/") + GetParam())),
        folder_(::testing::TempDir() + "vectors_" + GetParam() + "_" + std::to_string(::getpid())) {
    write_family(std::string("../encoders/") + GetParam(), folder_);
    std::filesystem::create_directories(folder_ + "/gguf");
    gguf_ = write_family_gguf(std::string("../encoders/") + GetParam(), folder_ + "/gguf");
    std::int32_t next = 0;
    for (const boost::json::value& golden : model_.at("goldens").as_array()) {
      Text& text = texts_.emplace_back();
      for (const boost::json::value& id : golden.at("ids").as_array())
        text.ids.push_back(id.to_number<TokenId>());
      text.second = golden.at("second").to_number<std::int32_t>();
      for (std::size_t i = 0; i < text.ids.size(); i += kBlock) text.blocks.push_back(BlockId{next++});
    }
  }
  ~Vectors() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<LocalModelRunner> runner(Backend backend, std::int32_t threads, const std::string& dtype,
                                           std::int32_t block_size = kBlock, const std::string& model = "") {
    auto opened = ModelSource::open(model.empty() ? folder_ : model);
    if (!opened) {
      ADD_FAILURE() << opened.error().message();
      return nullptr;
    }
    const std::shared_ptr<const ModelSource> source = *std::move(opened);
    encoder_ = is_encoder(read_model_config(*source)->decoder);
    auto pooling = read_pooling_model(*source, encoder_, {.runner = "pooling"});
    EXPECT_TRUE(pooling && *pooling);
    kind_ = (*pooling)->kind;
    own_ = {.type = (*pooling)->type, .normalize = (*pooling)->normalize};
    RunnerOptions options;
    options.dtype = dtype;
    options.backend = backend;
    options.threads = threads;
    options.block_size = block_size;
    options.num_blocks = 200;
    options.max_num_batched_tokens = kMaxTokens;
    options.max_num_seqs = 8;
    options.max_context = 320;
    options.pooling = *std::move(pooling);
    auto made = LocalModelRunner::create(source, options);
    if (!made) ADD_FAILURE() << made.error().message();
    return made ? *std::move(made) : nullptr;
  }

  // One vector for each of these texts, computed together, `chunk` tokens of each at a time.
  std::vector<std::vector<float>> run(LocalModelRunner& runner, const std::vector<std::size_t>& which,
                                      const PoolingSpec& spec, std::int32_t chunk = kMaxTokens) {
    std::vector<std::vector<float>> pooled(which.size());
    std::vector<std::int32_t> done(which.size(), 0);
    for (bool left = true; left;) {
      left = false;
      ScheduledBatch batch;
      std::vector<std::size_t> in_batch;
      for (std::size_t i = 0; i < which.size(); ++i) {
        const Text& text = texts_[which[i]];
        const auto all = static_cast<std::int32_t>(text.ids.size());
        const std::int32_t count = std::min(encoder_ ? all : chunk, all - done[i]);
        if (count == 0) continue;
        ScheduledSequence& sequence = batch.sequences.emplace_back();
        sequence.id = SequenceId{i + 1};
        sequence.num_computed_tokens = done[i];
        sequence.all_tokens = text.ids;
        sequence.tokens =
            sequence.all_tokens.subspan(static_cast<std::size_t>(done[i]), static_cast<std::size_t>(count));
        sequence.num_prompt_tokens = all;
        if (!encoder_) sequence.block_table = text.blocks;
        sequence.sample = done[i] + count == all;
        sequence.work = kind_;
        sequence.pooling = spec;
        sequence.pooled = pooled[i];
        sequence.whole_prompt = encoder_;
        sequence.second_text = encoder_ ? text.second : 0;
        batch.num_tokens += count;
        done[i] += count;
        left = left || !sequence.sample;
        in_batch.push_back(i);
      }
      StepResult result = runner.run(batch);
      EXPECT_TRUE(result.status.ok()) << result.status.message();
      if (!result.status.ok()) return pooled;
      for (std::size_t i = 0; i < in_batch.size(); ++i) pooled[in_batch[i]] = std::move(result.vectors[i]);
    }
    return pooled;
  }

  std::vector<std::size_t> all() const {
    std::vector<std::size_t> which(texts_.size());
    std::iota(which.begin(), which.end(), std::size_t{0});
    return which;
  }

  boost::json::object model_;
  std::string folder_, gguf_;  // gguf_: "" where the fixture has none
  std::vector<Text> texts_;
  bool encoder_ = false;
  WorkKind kind_ = WorkKind::embed;
  PoolingSpec own_;  // as the model's files say
};

void expect_vector_near(const std::vector<float>& vector, const boost::json::array& golden,
                        double tolerance) {
  ASSERT_EQ(vector.size(), golden.size());
  for (std::size_t i = 0; i < vector.size(); ++i)
    ASSERT_NEAR(vector[i], golden[i].to_number<double>(), tolerance) << "element " << i;
}

TEST_P(Vectors, AgreeWithTransformers) {
  struct Run {
    std::string model;
    Backend backend;
    std::int32_t block_size = 16;
  };
  std::vector<Run> runs = {{folder_, Backend::reference}, {folder_, Backend::cpu}};
  if (!std::string(GetParam()).starts_with("qwen3")) {
    runs.push_back({folder_, Backend::reference, 5});
    runs.push_back({folder_, Backend::cpu, 5});
  }
  if (!gguf_.empty()) runs.push_back({gguf_, Backend::cpu});
  const boost::json::array& goldens = model_.at("goldens").as_array();
  for (const auto& [model, backend, block_size] : runs) {
    SCOPED_TRACE(concat(model, backend == Backend::cpu ? " cpu" : " reference", " blocks of ", block_size));
    const auto made = runner(backend, 1, "float32", block_size, model);
    ASSERT_NE(made, nullptr);
    EXPECT_TRUE(made->ignored_tensors().empty()) << made->ignored_tensors().front();
    if (goldens.front().as_object().contains("own")) {  // with sentence-transformers' modules
      const auto vectors = run(*made, all(), own_);
      for (std::size_t i = 0; i < vectors.size(); ++i)
        expect_vector_near(vectors[i], goldens[i].at("own").as_array(), 1e-4);
      continue;
    }
    const std::pair<PoolingType, const char*> kWays[] = {
        {PoolingType::first, "first"}, {PoolingType::mean, "mean"}, {PoolingType::last, "last"}};
    for (const auto& [type, name] : kWays) {
      if (kind_ == WorkKind::score && type != own_.type) continue;
      const auto vectors = run(*made, all(), {.type = type, .normalize = kind_ == WorkKind::embed});
      for (std::size_t i = 0; i < vectors.size(); ++i) {
        SCOPED_TRACE(concat(name, " of text ", i));
        expect_vector_near(vectors[i], goldens[i].at(kind_ == WorkKind::score ? "logits" : name).as_array(),
                           1e-4);
      }
    }
  }
}

TEST_P(Vectors, BitsDependOnTheTextAlone) {
  for (const std::string dtype : {"float32", "bfloat16", "int8"}) {
    SCOPED_TRACE(dtype);
    const auto one = runner(Backend::cpu, 1, dtype), two = runner(Backend::cpu, 2, dtype);
    ASSERT_NE(one, nullptr);
    ASSERT_NE(two, nullptr);
    for (const PoolingType type : {PoolingType::first, PoolingType::mean, PoolingType::last}) {
      const PoolingSpec spec = {.type = type, .dimensions = 24};
      const auto together = run(*two, all(), spec, 7);
      std::vector<std::size_t> backwards = all();
      std::ranges::reverse(backwards);
      const auto reversed = run(*two, backwards, spec, 64);
      for (std::size_t i = 0; i < texts_.size(); ++i) {
        const std::vector<float> alone = run(*one, {i}, spec).front();
        ASSERT_FALSE(alone.empty());
        ASSERT_EQ(alone.size(), kind_ == WorkKind::embed ? 24u : alone.size());
        for (const std::vector<float>& other : {together[i], reversed[texts_.size() - 1 - i]}) {
          ASSERT_EQ(other.size(), alone.size());
          for (std::size_t d = 0; d < alone.size(); ++d)
            ASSERT_EQ(std::bit_cast<std::uint32_t>(other[d]), std::bit_cast<std::uint32_t>(alone[d]))
                << "text " << i << " element " << d << " pooling " << static_cast<int>(type);
        }
      }
    }
  }
}

// Its matrix is of every token's vector; what is pooled would be another model's.
TEST(PoolingModel, ADenseModuleBeforePoolingIsRefused) {
  const std::string folder =
      write_family("../encoders/bert_dense", ::testing::TempDir() + "colbert_" + std::to_string(::getpid()));
  std::ofstream(folder + "/modules.json") << R"([{"path": "", "type": "x.Transformer"},
      {"path": "2_Dense", "type": "x.Dense"}, {"path": "1_Pooling", "type": "x.Pooling"}])";
  const auto source = ModelSource::open(folder);
  ASSERT_TRUE(source) << source.error().message();
  const auto model = read_pooling_model(**source, true, {.runner = "pooling"});
  std::filesystem::remove_all(folder);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), StatusCode::unimplemented);
  EXPECT_NE(model.error().message().find("each token"), std::string::npos) << model.error().message();
}

INSTANTIATE_TEST_SUITE_P(Models, Vectors, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace pagoda::testing
