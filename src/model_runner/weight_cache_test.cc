// Goal: a model mapped from the weight cache gives the bits of one packed in memory; its file is made once,
// behind the answers of whoever comes first, and anew whenever it is not what is asked for; the source may go
// once the model is loaded, and so may the weights while they are being written. Method: the tiny models
// (plain and quantised, fused, transposed and interleaved weights), alone and on two ranks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include "model_runner/test_ranks.h"
#include "model_runner/test_sequences.h"
#include "models/decoder/cached_weights.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
using testing::Driver;
using testing::greedy;
using testing::TestRanks;
using testing::TestSequence;

const std::string kTinyModels = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/";

class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "pagoda_weights_XXXXXX").string();
    CHECK(::mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path, error);
  }
  std::string path;
};

// Messages, and how often weights were packed, through one cache folder.
struct Cached {
  explicit Cached(const std::string& folder, std::int64_t max_bytes = 1 << 30)
      : caching(std::make_shared<WeightCaching>()) {
    caching->cache.emplace(folder + "/weights", max_bytes);
    caching->warn = [this](std::string_view line) { warned.emplace_back(line); };
    caching->progress = [this](std::string_view what, std::int64_t done, std::int64_t total) {
      if (what == "packing weights" && done == total) ++packed;
    };
  }
  Status finish() const {
    return caching->writing->finish([](const WeightWriting::State&) { return false; });
  }
  std::shared_ptr<WeightCaching> caching;
  std::vector<std::string> warned;
  int packed = 0;
};

RunnerOptions options(const std::shared_ptr<WeightCaching>& caching, CpuLevel level = detected_cpu_level()) {
  return {.threads = 2,
          .max_num_batched_tokens = 16,
          .num_blocks = 16,
          .cpu_level = level,
          .weight_caching = caching};
}

std::vector<std::vector<TokenLogprob>> tops_of(ModelRunner& runner, std::int32_t block_size) {
  TestSequence sequence = greedy({1, 5, 9, 2, 7, 3});
  sequence.params.logprobs = 20;
  Driver driver(runner, block_size);
  for (int step = 0; step < 4; ++step) {
    CHECK(driver.step({&sequence}, 16).ok());
    sequence.tokens.push_back(sequence.sampled.back().token);
  }
  return sequence.top;
}

// The logits' bits, as far as 20 log-probabilities a step show them.
std::vector<std::vector<TokenLogprob>> run_model(const std::string& model, const RunnerOptions& how) {
  auto source = ModelSource::open(model);
  CHECK(source.has_value());
  auto runner = LocalModelRunner::create(*std::move(source), how);
  EXPECT_TRUE(runner) << runner.error().message();
  if (!runner) return {};
  auto tops = tops_of(**runner, how.block_size);
  if (how.weight_caching) {
    const Status written =
        how.weight_caching->writing->finish([](const WeightWriting::State&) { return false; });
    EXPECT_TRUE(written.ok()) << written.message();
    EXPECT_FALSE(how.weight_caching->cache->list().empty());
  }
  return tops;
}

bool same(const std::vector<std::vector<TokenLogprob>>& a, const std::vector<std::vector<TokenLogprob>>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, [](const TokenLogprob& p, const TokenLogprob& q) {
      return p.token == q.token && p.logprob == q.logprob;
    });
  });
}

std::string only_file(const Cached& cached) {
  const std::vector<CachedFile> files = cached.caching->cache->list();
  CHECK(files.size() == 1);
  return files.front().path;
}

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_all(const std::string& path, const std::string& bytes) {
  ::chmod(path.c_str(), 0600);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string copy_of_model(const std::string& name, const std::string& folder) {
  fs::create_directories(folder);
  fs::copy(kTinyModels + name, folder + "/" + name, fs::copy_options::recursive);
  return folder + "/" + name;
}

TEST(WeightCacheRunner, MappedWeightsGiveTheBitsOfPackedOnes) {
  for (const auto& entry : fs::directory_iterator(kTinyModels)) {
    const std::string model = entry.path().string();
    if (!ModelSource::open(model)) continue;
    for (const CpuLevel level : {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512}) {
      if (!cpu_level_usable(level)) continue;
      SCOPED_TRACE(model + " " + std::string(cpu_level_name(level)));
      const Scratch scratch;
      Cached cached(scratch.path);
      const auto expected = run_model(model, options(nullptr, level));
      ASSERT_FALSE(expected.empty());
      EXPECT_TRUE(same(run_model(model, options(cached.caching, level)), expected));
      EXPECT_EQ(cached.packed, 1);
      EXPECT_TRUE(same(run_model(model, options(cached.caching, level)), expected));
      EXPECT_EQ(cached.packed, 1);
      EXPECT_TRUE(cached.warned.empty());
    }
  }
}

TEST(WeightCacheRunner, RanksHaveAFileEach) {
  const std::string model = kTinyModels + "llama";
  const Scratch scratch;
  const Cached cached(scratch.path);
  // Called by several threads.
  cached.caching->progress = [](std::string_view, std::int64_t, std::int64_t) {};
  RunnerOptions how = options(nullptr);
  how.threads = 1;
  bool mapped = false;
  const auto with = [&](const std::shared_ptr<WeightCaching>& caching) {
    how.weight_caching = caching;
    TestRanks ranks(model, how, 2);
    CHECK(ranks.status.ok());
    mapped = ranks.runner->totals().mapped_bytes > 0;
    const auto tops = tops_of(*ranks.runner, how.block_size);
    if (caching) EXPECT_TRUE(cached.finish().ok());
    return tops;
  };
  const auto expected = with(nullptr);
  EXPECT_TRUE(same(with(cached.caching), expected));
  EXPECT_FALSE(mapped);
  EXPECT_EQ(cached.caching->cache->list().size(), 2u);
  EXPECT_TRUE(same(with(cached.caching), expected));
  EXPECT_TRUE(mapped);
  EXPECT_EQ(cached.caching->cache->list().size(), 2u);
}

TEST(WeightCacheRunner, WhatIsDamagedIsMadeAnew) {
  const std::string model = kTinyModels + "llama";
  const Scratch scratch;
  Cached cached(scratch.path);
  const auto expected = run_model(model, options(cached.caching));
  const std::string whole = read_all(only_file(cached));
  int made = 1;
  const auto after = [&](const std::string& bytes) {
    write_all(only_file(cached), bytes);
    ::chmod(only_file(cached).c_str(), 0400);
    EXPECT_TRUE(same(run_model(model, options(cached.caching)), expected));
    EXPECT_EQ(cached.packed, ++made);
    EXPECT_EQ(read_all(only_file(cached)).size(), whole.size());
  };
  after("");
  after(whole.substr(0, whole.size() / 2));
  after(whole + "x");
  std::string changed = whole;
  changed[5000] ^= 1;
  after(changed);
  // Whole, but others may write it.
  ::chmod(only_file(cached).c_str(), 0666);
  EXPECT_TRUE(same(run_model(model, options(cached.caching)), expected));
  EXPECT_EQ(cached.packed, ++made);
  EXPECT_TRUE(cached.warned.empty());
}

TEST(WeightCacheRunner, AnotherSourceIsAnotherFile) {
  const Scratch scratch;
  Cached cached(scratch.path);
  const std::string model = copy_of_model("qwen2", scratch.path + "/a");
  const auto expected = run_model(model, options(cached.caching));
  const std::string weights = model + "/model.safetensors";
  ASSERT_TRUE(fs::exists(weights));
  // The same size and name, even the same time of modification, but other bytes.
  struct stat before;
  ASSERT_EQ(::stat(weights.c_str(), &before), 0);
  std::string bytes = read_all(weights);
  for (std::size_t i = bytes.size() - 4000; i + 4 <= bytes.size(); i += 4) bytes[i + 2] ^= 0x20;
  {
    std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
    file << bytes;
  }
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, weights.c_str(), times, 0), 0);
  EXPECT_FALSE(same(run_model(model, options(cached.caching)), expected));
  EXPECT_EQ(cached.packed, 2);
  EXPECT_EQ(cached.caching->cache->list().size(), 2u);
  // Another dtype too.
  RunnerOptions other = options(cached.caching);
  other.dtype = "float32";
  run_model(model, other);
  EXPECT_EQ(cached.packed, 3);
}

TEST(WeightCacheRunner, TheSourceMayBeOverwrittenOnceLoaded) {
  for (const bool with_cache : {true, false}) {
    for (const bool made_before : {true, false}) {
      const Scratch scratch;
      Cached cached(scratch.path);
      const std::string model = copy_of_model("qwen2", scratch.path + "/a");
      const auto how = options(with_cache ? cached.caching : nullptr);
      if (with_cache && made_before) run_model(model, how);
      auto source = ModelSource::open(model);
      ASSERT_TRUE(source);
      auto runner = LocalModelRunner::create(*std::move(source), how);
      ASSERT_TRUE(runner);
      const auto expected = run_model(model, how);
      const std::string weights = model + "/model.safetensors";
      write_all(weights, std::string(fs::file_size(weights), '\x55'));
      fs::resize_file(weights, 10);
      EXPECT_TRUE(same(tops_of(**runner, 16), expected));
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);)
        EXPECT_EQ(line.find(model), std::string::npos) << line;
    }
  }
}

TEST(WeightCacheRunner, WithoutAPlaceForItAModelRunsAndIsToldWhyOnce) {
  const std::string model = kTinyModels + "llama";
  const auto expected = run_model(model, options(nullptr));
  const Scratch scratch;
  const auto loads = [&](Cached& cached, StatusCode why) {
    auto source = ModelSource::open(model);
    auto runner = LocalModelRunner::create(*std::move(source), options(cached.caching));
    ASSERT_TRUE(runner);
    EXPECT_EQ((*runner)->memory_plan().mapped_bytes, 0);
    EXPECT_TRUE(same(tops_of(**runner, 16), expected));
    EXPECT_EQ(cached.finish().code(), why);
    EXPECT_TRUE(same(tops_of(**runner, 16), expected));
    ASSERT_EQ(cached.warned.size(), 1u);
    EXPECT_TRUE(cached.warned.front().starts_with("packed weights are not kept on disk: "))
        << cached.warned.front();
  };
  Cached small(scratch.path, 100);
  loads(small, StatusCode::resource_exhausted);
  write_all(scratch.path + "/file", "x");
  Cached no_folder(scratch.path + "/file");
  loads(no_folder, StatusCode::invalid_argument);
}

TEST(WeightCacheRunner, WeightsThatGoBeforeTheyAreWrittenLeaveNoFile) {
  const Scratch scratch;
  const Cached cached(scratch.path);
  std::int64_t to_write = -1;
  cached.caching->writing->watch([&](const WeightWriting::State& state) { to_write = state.bytes; });
  auto source = ModelSource::open(kTinyModels + "llama");
  auto runner = LocalModelRunner::create(*std::move(source), options(cached.caching));
  ASSERT_TRUE(runner);
  EXPECT_GT(to_write, 0);
  const auto before = std::chrono::steady_clock::now();
  runner->reset();  // nobody has asked for the file
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  EXPECT_EQ(cached.finish().code(), StatusCode::cancelled);
  EXPECT_EQ(to_write, 0);
  EXPECT_TRUE(cached.caching->cache->list().empty());
  EXPECT_TRUE(cached.warned.empty());
}

TEST(WeightCacheRunner, WhatAnotherProcessMakesIsLeftToIt) {
  const Scratch scratch;
  Cached cached(scratch.path);
  std::vector<std::string> said;
  cached.caching->say = [&](std::string_view line) { said.emplace_back(line); };
  run_model(kTinyModels + "llama", options(cached.caching));
  const std::string path = only_file(cached), key = PackedFile::read_head(path)->key;
  ASSERT_EQ(::unlink(path.c_str()), 0);
  {
    const auto other = cached.caching->cache->begin({.key = key, .source = ""}, 10);
    ASSERT_TRUE(other);
    auto source = ModelSource::open(kTinyModels + "llama");
    auto runner = LocalModelRunner::create(*std::move(source), options(cached.caching));
    ASSERT_TRUE(runner);
    EXPECT_TRUE(cached.finish().ok());
  }
  EXPECT_TRUE(cached.caching->cache->list().empty());
  EXPECT_TRUE(cached.warned.empty());
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said.back(), "another process is writing these packed weights to disk");
}

// Several runners of one process: in memory or mapped, all of them multiply by the same bytes, and give the
// bits of one alone; the bytes stay as long as any of them is there, and are found again after a sleep.
TEST(WeightShare, RunnersUseTheSameBytes) {
  const Scratch scratch;
  for (const char* name : {"llama", "llama_gguf_quantized/model.gguf", "gpt2"}) {
    SCOPED_TRACE(name);
    const std::string model = kTinyModels + name;
    const auto alone = run_model(model, {.max_num_batched_tokens = 16, .num_blocks = 16});
    for (const bool mapped : {false, true}) {
      Cached cached(scratch.path + "/" + std::to_string(mapped));
      if (mapped) {  // by an earlier process
        Cached before(scratch.path + "/" + std::to_string(mapped));
        run_model(model, options(before.caching));
      } else {
        cached.caching->cache.reset();
      }
      cached.caching->share = std::make_shared<WeightShare>();
      RunnerOptions how = options(cached.caching);
      how.reopen = [&model]() -> Result<std::shared_ptr<const ModelSource>> {
        auto source = ModelSource::open(model);
        if (!source) return source.error();
        return std::shared_ptr<const ModelSource>(*std::move(source));
      };
      std::vector<std::unique_ptr<LocalModelRunner>> runners;
      for (int i = 0; i < 3; ++i) {
        auto source = ModelSource::open(model);
        ASSERT_TRUE(source);
        auto runner = LocalModelRunner::create(*std::move(source), how);
        ASSERT_TRUE(runner) << runner.error().message();
        runners.push_back(*std::move(runner));
      }
      EXPECT_EQ(cached.packed, mapped ? 0 : 1);
      runners.erase(runners.begin());  // the one that loaded them
      for (const auto& runner : runners) EXPECT_TRUE(same(tops_of(*runner, 16), alone));
      for (const auto& runner : runners)
        ASSERT_TRUE(runner->release_memory(ModelRunner::KvContent::drop).ok());
      for (const auto& runner : runners) ASSERT_TRUE(runner->load_weights().ok());
      EXPECT_EQ(cached.packed, mapped ? 0 : 2) << "once for both";
      for (const auto& runner : runners) EXPECT_TRUE(same(tops_of(*runner, 16), alone));
    }
  }
}

}  // namespace
}  // namespace pagoda
