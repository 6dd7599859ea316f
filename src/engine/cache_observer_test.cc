// The calls of a CacheObserver add up to the contents of the prefix cache, after every step of an engine
// whose cache is too small for its requests.
#include "kv_cache/cache_observer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "engine/cache_events.h"
#include "engine/engine_core.h"
#include "engine/fake_model_runner.h"
#include "kv_cache/paged_kv_manager.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {
namespace {

class Mirror final : public CacheObserver {
 public:
  void on_stored(const Stored& block) override {
    EXPECT_EQ(block.tokens.size(), 4u);
    EXPECT_TRUE(held.emplace(key(block.hash), block.tokens.size()).second) << "stored twice";
    if (block.parent == nullptr) {
      num_salted += block.root != nullptr ? 1 : 0;
      num_adapted += block.adapter != nullptr ? 1 : 0;
      EXPECT_TRUE(block.adapter == nullptr || block.root != nullptr) << "found without the adapter";
      ++num_first;
    } else {
      EXPECT_EQ(block.root, nullptr);
      // After a reset, or the eviction of an equal block, it can be alone.
      num_orphans += held.contains(key(*block.parent)) ? 0 : 1;
      ++num_children;
    }
    hashes[key(block.hash)] = block.hash;
  }
  void on_removed(const BlockHash& hash) override {
    ++num_removed;
    EXPECT_EQ(held.erase(key(hash)), 1u) << "removed, and was not there";
  }
  void on_cleared() override { held.clear(); }
  void end_step() override { ++num_steps; }
  static std::uint64_t key(const BlockHash& hash) { return hash.words[3]; }

  std::map<std::uint64_t, std::size_t> held;
  std::map<std::uint64_t, BlockHash> hashes;
  int num_removed = 0, num_first = 0, num_salted = 0, num_steps = 0, num_orphans = 0, num_children = 0,
      num_adapted = 0;
};

class NoSink final : public OutputSink {
 public:
  void on_output(RequestOutput) override {}
};

// Full blocks of four tokens, and what else the layers keep.
struct Engine {
  Engine(std::vector<KvGroup> groups, std::int32_t num_blocks) {
    auto kv = std::make_unique<PagedKvManager>(
        PagedKvConfig{.block_size = 4, .num_blocks = num_blocks, .model_id = "m", .groups = groups});
    manager = kv.get();
    auto scheduler = std::make_unique<VllmScheduler>(config.scheduler_config(), *kv);
    auto runner = std::make_unique<fake::FakeModelRunner>(4, num_blocks, 0, 0, groups);
    core = std::make_unique<EngineCore>(
        config, EngineParts{std::move(kv), std::move(scheduler), std::move(runner)}, clock, metrics);
    core->add_observer(cache_events);
  }
  void submit(bool conversation) {
    Request request;
    request.id = RequestId{next++};
    const auto text = static_cast<TokenId>(random() % 3);
    for (TokenId i = 0; i < static_cast<TokenId>(4 + random() % 30); ++i)
      request.prompt_token_ids.push_back((text + i * i) % fake::kVocabulary);
    request.sampling.max_tokens = static_cast<std::int32_t>(1 + random() % (conversation ? 5 : 20));
    request.sampling.ignore_eos = true;
    request.cache_salt = random() % 4 == 0 ? "mine" : "";
    if (random() % 4 == 0) request.adapter = adapter;
    ASSERT_TRUE(core->submit(std::move(request), std::make_shared<NoSink>()).ok());
  }
  void step() {
    if (random() % 50 == 0) core->abort(RequestId{next - 1});
    if (random() % 500 == 0) core->reset_prefix_cache();
    core->step();
    for (const auto& [key, size] : mirror.held)
      ASSERT_TRUE(manager->parts().pool.find_cached(mirror.hashes[key]));
  }
  const EngineConfig config{.max_model_len = 60,
                            .max_num_seqs = 4,
                            .max_num_batched_tokens = 16,
                            .block_size = 4,
                            .vocab_size = fake::kVocabulary,
                            .log_stats = false};
  SteadyClock clock;
  MetricsRegistry metrics;
  Mirror mirror;
  CacheEvents cache_events{mirror};
  std::mt19937 random{7};
  const std::shared_ptr<const RequestAdapter> adapter = [] {
    auto made = std::make_shared<RequestAdapter>();
    made->id = AdapterId{1};
    made->identity = "content";
    return made;
  }();
  std::uint64_t next = 1;
  const PagedKvManager* manager = nullptr;
  std::unique_ptr<EngineCore> core;
};

TEST(CacheObserverTest, AddsUpToTheCache) {
  Engine engine(one_full_group(4), 20);
  const Mirror& mirror = engine.mirror;
  for (int step = 0; step < 3000; ++step) {
    if (engine.core->requests().size() < 6) engine.submit(false);
    engine.step();
    ASSERT_EQ(std::ssize(mirror.held), engine.manager->parts().pool.num_published()) << step;
  }
  EXPECT_EQ(mirror.num_steps, 3000);
  EXPECT_GT(mirror.num_removed, 100);
  EXPECT_GT(mirror.num_adapted, 5);
  EXPECT_GT(mirror.num_salted, mirror.num_adapted + 5);
  EXPECT_GT(mirror.num_first, mirror.num_salted);
  EXPECT_GT(mirror.num_children, 20 * mirror.num_orphans);
}

// A sequence leaves beside its last state a row that is not full, under a hash that nobody was told.
TEST(CacheObserverTest, IsToldOfFullBlocksAloneBesideStates) {
  Engine engine({{.tokens_per_row = 4, .pages_per_row = 1},
                 {.kind = KvKind::window, .window = 6, .tokens_per_row = 4, .pages_per_row = 1},
                 {.kind = KvKind::state, .tokens_per_row = 4, .pages_per_row = 2}},
                60);
  std::int64_t most_untold = 0;
  for (int step = 0; step < 3000; ++step) {
    if (engine.core->requests().size() < 3) engine.submit(true);
    engine.step();
    most_untold =
        std::max(most_untold, engine.manager->parts().pool.num_published() - std::ssize(engine.mirror.held));
  }
  EXPECT_GT(engine.mirror.num_removed, 100);
  EXPECT_GT(most_untold, 5);
}

}  // namespace
}  // namespace pagoda
