// Goal: every family computes what transformers computes, and what a sequence gets does not depend on its
// batch, its chunks, recomputation or threads. Each fixture of tests/fixtures/families is a family, made by
// make_families.py there; a new one's is in here by itself, and for the second half where all are tried.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "model_runner/expect_golden.h"
#include "model_runner/family_model.h"
#include "model_runner/fused_gguf.h"
#include "model_runner/test_ranks.h"
#include "models/read_config.h"

namespace pagoda::testing {
namespace {

class Family : public ::testing::TestWithParam<std::string> {
 protected:
  Family()
      : folder_(write_family(
            GetParam(), ::testing::TempDir() + "family_" + GetParam() + "_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_ + "/gguf");
  }
  ~Family() override { std::filesystem::remove_all(folder_); }

  static RunnerOptions options(Backend backend, std::int32_t threads, const std::string& dtype) {
    RunnerOptions options = family_options();
    options.dtype = dtype;
    options.backend = backend;
    options.threads = threads;
    return options;
  }

  std::unique_ptr<LocalModelRunner> runner(const std::string& model, Backend backend,
                                           std::int32_t threads = 1, const std::string& dtype = "float32") {
    return new_runner(ModelSource::open(model), options(backend, threads, dtype));
  }

  std::string folder_;
};

TEST_P(Family, AgreesWithTransformers) {
  const boost::json::object family = read_family(GetParam());
  const std::string gguf = write_family_gguf(GetParam(), folder_ + "/gguf");
  struct Run {
    std::string model;
    Backend backend;
  };
  std::vector<Run> runs = {{folder_, Backend::reference}, {folder_, Backend::cpu}};
  if (!gguf.empty()) runs.push_back({gguf, Backend::cpu});
  for (const auto& [model, backend] : runs) {
    SCOPED_TRACE(model + (backend == Backend::cpu ? " cpu" : " reference"));
    const auto run = runner(model, backend);
    ASSERT_NE(run, nullptr);
    EXPECT_TRUE(run->ignored_tensors().empty()) << run->ignored_tensors().front();
    for (const boost::json::value& line : family.at("goldens").as_array())
      expect_golden(*run, run->kv_layout().block_size, line.as_object());
  }
}

// The same file with matrices joined, and without dimensions that say nothing.
TEST_P(Family, AgreesHoweverAConverterJoinsMatrices) {
  const boost::json::object family = read_family(GetParam());
  const std::string gguf = write_family_gguf(GetParam(), folder_ + "/gguf");
  if (gguf.empty() || FusedGguf::write(gguf) == 0) return;
  const auto run = runner(gguf, Backend::cpu);
  ASSERT_NE(run, nullptr);
  EXPECT_TRUE(run->ignored_tensors().empty()) << run->ignored_tensors().front();
  expect_golden(*run, run->kv_layout().block_size, family.at("goldens").as_array().front().as_object());
}

// The ways of serving change none of its bits: one or two families of each kind are tried, or all.
class ServedFamily : public Family {};

// Each alone in one chunk on one thread; then together, in small chunks, on two threads, one of them computed
// again from the start after some tokens.
TEST_P(ServedFamily, BitsDependOnTheSequenceAlone) {
  const boost::json::object family = read_family(GetParam());
  for (const std::string dtype : {"float32", "bfloat16", "int8"}) {
    SCOPED_TRACE(dtype);
    const auto one = runner(folder_, Backend::cpu, 1, dtype), two = runner(folder_, Backend::cpu, 2, dtype);
    ASSERT_NE(one, nullptr);
    ASSERT_NE(two, nullptr);
    std::vector<TestSequence> alone, together;
    for (const boost::json::value& line : family.at("goldens").as_array())
      alone.push_back(greedy(ids_of(line.as_object().at("prompt_ids"))));
    together = alone;
    for (TestSequence& sequence : alone) {
      Driver driver(*one);
      ASSERT_TRUE(driver.generate({&sequence}, 8).ok());
    }
    Driver driver(*two);
    std::vector<TestSequence*> all;
    for (TestSequence& sequence : together) all.push_back(&sequence);
    ASSERT_TRUE(driver.generate(all, 4, 7).ok());
    together[1].num_computed = 0;  // preempted: its blocks are others' now
    together[1].blocks.clear();
    ASSERT_TRUE(driver.generate(all, 8, 7).ok());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      SCOPED_TRACE(i);
      expect_same_draws(together[i], alone[i]);
    }
  }
}

// Families with states: a prompt cut at any place gives the bits of the whole one, and so does a sequence
// that goes on from a copy which the whole one's step has made in passing.
TEST_P(ServedFamily, StatesAreTheSameHoweverAPromptIsCut) {
  const boost::json::object family = read_family(GetParam());
  const auto one = runner(folder_, Backend::cpu, 1), two = runner(folder_, Backend::cpu, 2);
  ASSERT_NE(one, nullptr);
  if (!one->kv_plan().has_states()) return;
  ASSERT_TRUE(one->allocate_kv_cache(4000).ok() && two->allocate_kv_cache(4000).ok());
  const auto& goldens = family.at("goldens").as_array();
  const auto longest = std::ranges::max_element(goldens, {}, [](const boost::json::value& line) {
    return line.as_object().at("prompt_ids").as_array().size();
  });
  TestSequence alone = greedy(ids_of(longest->as_object().at("prompt_ids")));
  const std::vector<TokenId> prompt = alone.tokens;
  Driver whole(*one), cut(*two);
  whole.cover(alone, static_cast<std::int32_t>(prompt.size()));
  const std::int32_t pages = whole.groups().back().pages_per_row;
  std::vector<StateCopy> copies;
  std::vector<std::vector<BlockId>> states(prompt.size());
  for (std::int32_t at = 1; at < std::ssize(prompt); ++at) {
    std::vector<BlockId>& state = states[static_cast<std::size_t>(at)];
    whole.take_row(pages, state);
    for (std::int32_t page = 0; page < pages; ++page)
      copies.push_back({.position = at,
                        .group = static_cast<std::int32_t>(whole.groups().size()) - 1,
                        .first_page = page,
                        .page = state[static_cast<std::size_t>(page)]});
  }
  ASSERT_TRUE(whole.step({&alone}, 1 << 20, {}, copies).ok());
  alone.tokens.push_back(alone.sampled.back().token);
  const auto expect_same = [&](TestSequence& sequence, Driver& driver, std::size_t at) {
    ASSERT_TRUE(driver.step({&sequence}, 1 << 20).ok());
    ASSERT_EQ(sequence.sampled.back().token, alone.sampled.front().token) << "cut at " << at;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(sequence.sampled.back().logprob),
              std::bit_cast<std::uint32_t>(alone.sampled.front().logprob))
        << "cut at " << at;
  };
  for (std::size_t at = 1; at < prompt.size(); ++at) {
    TestSequence sequence = greedy(prompt);
    ASSERT_TRUE(cut.step({&sequence}, static_cast<std::int32_t>(at)).ok());
    expect_same(sequence, cut, at);
    TestSequence branch = greedy(prompt);
    branch.blocks = alone.blocks;
    branch.state = states[at];
    branch.num_computed = static_cast<std::int32_t>(at);
    expect_same(branch, whole, at);
  }
}

TEST_P(ServedFamily, TwoRanksAgree) {
  const boost::json::object family = read_family(GetParam());
  TestRanks ranks(folder_, options(Backend::cpu, 1, "float32"), 2);
  ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
  for (const boost::json::value& line : family.at("goldens").as_array())
    expect_golden(Driver(*ranks.runner, 16, ranks.runner->local().kv_plan().groups), line.as_object());
  ranks.join();
  for (const Status& status : ranks.statuses) EXPECT_TRUE(status.ok()) << status.message();
}

// Heads of keys, and those that keep states, are on one rank or several; norms and convolutions see the rest.
TEST_P(ServedFamily, RanksGiveTheBitsOfOne) {
  const boost::json::object family = read_family(GetParam());
  std::vector<std::string> models = {folder_, write_family_gguf(GetParam(), folder_ + "/gguf")};
  if (models.back().empty()) models.pop_back();
  for (const std::string& model : models)
    for (const std::int32_t size : {2, 4}) {
      const RunnerOptions how = options(Backend::cpu, 1, size == 2 ? "int8" : "float32");
      SCOPED_TRACE(model + " on " + std::to_string(size) + " in " + how.dtype);
      TestRanks ranks(model, how, size);
      if (size == 4 && !ranks.status.ok()) {  // a fixture is small
        EXPECT_NE(ranks.status.message().find("cannot split the model over 4 ranks"), std::string::npos)
            << ranks.status.message();
        continue;
      }
      ASSERT_TRUE(ranks.status.ok()) << ranks.status.message();
      const auto one = runner(model, Backend::cpu, 1, how.dtype);
      ASSERT_NE(one, nullptr);
      for (const boost::json::value& line : family.at("goldens").as_array()) {
        TestSequence alone = greedy(ids_of(line.as_object().at("prompt_ids"))), split = alone;
        Driver whole(*one), parts(*ranks.runner, 16, ranks.runner->local().kv_plan().groups);
        ASSERT_TRUE(whole.generate({&alone}, 4).ok());
        ASSERT_TRUE(parts.generate({&split}, 4, 7).ok());
        expect_same_draws(split, alone);
      }
      ranks.join();
      for (const Status& status : ranks.statuses) EXPECT_TRUE(status.ok()) << status.message();
    }
}

// Half of a pair of tensors is no weight: what lacks is named.
TEST(Mxfp4, BlocksWithoutScalesAreRefused) {
  const std::string folder =
      write_family("gpt_oss_mxfp4", ::testing::TempDir() + "no_scales_" + std::to_string(::getpid()));
  const std::string path = folder + "/model.safetensors";
  std::ifstream in(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  in.close();
  const std::string name = "model.layers.1.mlp.experts.down_proj_scales";
  ASSERT_NE(bytes.find(name), std::string::npos);
  bytes[bytes.find(name) + name.size() - 1] = 'x';
  std::ofstream(path, std::ios::binary) << bytes;
  const auto source = ModelSource::open(folder);
  std::filesystem::remove_all(folder);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code(), StatusCode::corrupt_data);
  EXPECT_NE(source.error().message().find(name + "' is missing"), std::string_view::npos)
      << source.error().message();
}

INSTANTIATE_TEST_SUITE_P(Families, ServedFamily, ::testing::ValuesIn(families_of_every_kind()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Families, Family, ::testing::ValuesIn(all_families()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pagoda::testing
