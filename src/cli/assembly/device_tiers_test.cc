// Goal: an engine on a device with tiers behind its pool gives the bits that it gives without, for all KV
// groups, paged and virtual, with steps planned ahead and with sleep; and finds rows in the tiers. Method:
// sessions that come back to a pool which holds one or two of them, on small models.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/random.h"
#include "cli/assembly/assemble.h"
#include "cli/commands/output_collector.h"
#include "model_runner/family_model.h"

namespace pagoda {
namespace {

using SeedAnswers = std::map<std::int32_t, std::pair<std::vector<TokenId>, std::vector<std::uint32_t>>>;

std::string model_of(const std::string& family) {
  const std::string folder = std::string(PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/") + family;
  if (std::filesystem::exists(folder)) return folder;
  return testing::write_family(
      family, ::testing::TempDir() + "device_tiers_" + family + "_" + std::to_string(::getpid()));
}

EngineFlags tier_flags(const std::string& family) {
  EngineFlags flags;
  flags.model = model_of(family);
  flags.device = "emulated";
  flags.emulated_device = {.memory_bytes = std::int64_t{32} << 20, .granule_bytes = 4096, .seed = 3};
  flags.dtype = "float32";
  flags.block_size = 4;
  flags.max_num_seqs = 8;
  flags.max_num_batched_tokens = 64;
  flags.max_model_len = 48;
  flags.kv_cache_memory_bytes = std::int64_t{8} << 20;
  return flags;
}

class Rig {
 public:
  explicit Rig(const EngineFlags& flags) {
    auto made = AssembledEngine::create(flags, AssembledEngine::Report::quiet);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message());
    if (made) engine_ = *std::move(made);
  }
  ~Rig() {
    if (engine_) engine_->stop();
  }
  explicit operator bool() const { return engine_ != nullptr; }
  AssembledEngine& engine() { return *engine_; }

  // Three sessions, whose turns share their beginnings; one after the other, or all at once.
  std::vector<SeedAnswers> ask(bool all_at_once, std::size_t count = 9) {
    std::vector<SeedAnswers> answers(count);
    std::map<RequestId, std::size_t> which;
    OutputCollector collector;
    std::size_t open = 0;
    const auto wait = [&] {
      while (open > 0)
        for (OutputCollector::Item& item : collector.take()) {
          EXPECT_TRUE(item.output.error.ok()) << item.output.error.message();
          open -= item.output.finished ? 1 : 0;
          for (const SequenceDelta& delta : item.output.deltas) {
            auto& [tokens, logprobs] = answers[which.at(item.output.id)][delta.index];
            tokens.insert(tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
            for (const TokenLogprobs& of : delta.logprobs)
              logprobs.push_back(std::bit_cast<std::uint32_t>(of.chosen.logprob));
          }
        }
    };
    for (std::size_t i = 0; i < count; ++i) {
      Request request;
      request.id = RequestId{++next_id_};
      for (std::uint64_t at = 0; at < 30 + 4 * (i / 3); ++at)
        request.prompt_token_ids.push_back(static_cast<TokenId>(3 + random_bits(i % 3, 1, at) % 60));
      request.sampling.max_tokens = 6;
      request.sampling.ignore_eos = true;
      request.sampling.logprobs = 1;
      request.sampling.seed = i;
      request.sampling.temperature = i % 3 == 1 ? 0.8f : 0;
      if (i % 3 == 2) request.sampling.n = request.sampling.best_of = 2;
      which[request.id] = i;
      const Status status = engine_->client().submit(std::move(request), collector.make_sink());
      EXPECT_TRUE(status.ok()) << status.message();
      open += status.ok() ? 1 : 0;
      if (!all_at_once) wait();
    }
    wait();
    return answers;
  }
  double metric(const std::string& name) {
    const std::string text = engine_->metrics().expose("pagoda", "model_name=\"m\"");
    const std::size_t at = text.find(name + "{");
    return at == std::string::npos ? -1 : std::stod(text.substr(text.find('}', at) + 2));
  }
  double hits() { return metric("\npagoda:external_prefix_cache_hits_total"); }

 private:
  std::unique_ptr<AssembledEngine> engine_;
  std::uint64_t next_id_ = 0;
};

struct Case {
  const char* family;
  const char* manager;
  bool async;
  std::int64_t pool_tokens;  // so few that a session's rows leave when the others come
};

std::int64_t pool_of(const EngineFlags& flags, std::int64_t tokens) {
  Rig rig(flags);
  const MemoryTable& memory = rig.engine().memory();
  return memory.kv_bytes / memory.kv_tokens * tokens;
}

class DeviceTiers : public ::testing::TestWithParam<Case> {};

TEST_P(DeviceTiers, GiveTheSameBits) {
  EngineFlags flags = tier_flags(GetParam().family);
  flags.kv_manager = GetParam().manager;
  flags.async_scheduling = GetParam().async;
  std::vector<SeedAnswers> wanted;
  {
    EngineFlags whole = flags;
    whole.enable_prefix_caching = false;
    Rig rig(whole);
    ASSERT_TRUE(rig);
    wanted = rig.ask(true);
  }
  flags.kv_cache_memory_bytes = pool_of(flags, GetParam().pool_tokens);
  flags.kv_offloading_bytes = std::int64_t{4} << 20;
  // Steps are compared in a graph and without where rows are pages of a pool; device_runner_test compares all
  // forms.
  const bool compares = std::string_view(GetParam().family) == "llama" && !GetParam().async &&
                        std::string_view(GetParam().manager) == "paged";
  for (const char* graphs : {"auto", "check"}) {
    if (std::string_view(graphs) == "check" && !compares) break;
    flags.device_graphs = graphs;
    Rig rig(flags);
    ASSERT_TRUE(rig);
    EXPECT_EQ(rig.ask(false), wanted);
    EXPECT_EQ(rig.ask(false), wanted) << "sessions that return";
    EXPECT_EQ(rig.ask(true), wanted) << "all at once";
    // On a busy machine the tier may be later than computing all of it.
    for (int i = 0; i < 10 && rig.hits() <= 0; ++i) EXPECT_EQ(rig.ask(false), wanted);
    EXPECT_GT(rig.hits(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, DeviceTiers,
    ::testing::Values(Case{"llama", "paged", false, 80}, Case{"llama", "virtual", false, 80},
                      Case{"llama", "paged", true, 80}, Case{"gemma3", "paged", false, 200},
                      Case{"lfm2", "paged", true, 80}),
    [](const auto& info) {
      return std::string(info.param.family) + "_" + info.param.manager + (info.param.async ? "_ahead" : "");
    });

}  // namespace
}  // namespace pagoda
