// Goal: a draft model changes nothing but the number of steps, and its K/V are right whatever is accepted,
// forked, preempted, cached, or computed in parts.
// Method: the fake model as its own draft model, whose tokens depend on all K/V that they were made from:
// each draft is compared with what follows from the sequence's text, and every one of a greedy request must
// be accepted.
#include "engine/model_proposer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::Options;
using fake::Rig;

struct DraftOptions {
  std::int32_t num_blocks = 256, max_num_batched_tokens = 64, num_speculative_tokens = 4;
  std::int32_t vocab_size = fake::kVocabulary, disable_by_batch_size = 0;
  double cost = 0;
  int num_unused = 0;  // proposals before the first that counts
};

struct Counts final : StepObserver {
  void on_drafts_verified(std::int32_t num_tried, std::int32_t num_accepted) override {
    tried += num_tried;
    accepted += num_accepted;
  }
  std::int64_t tried = 0, accepted = 0;
};

// Compares each draft with the token that the model finds most likely behind the text and the drafts before.
class CheckedDrafts final : public DraftProposer {
 public:
  // The first `num_unused` proposals are dropped, as those for sequences that do not run in the next steps.
  CheckedDrafts(std::unique_ptr<DraftProposer> inner, int num_unused)
      : inner_(std::move(inner)), num_unused_(num_unused) {}
  void propose(std::span<const DraftableSequence> sequences, std::int32_t num_decodes) override {
    for (; num_unused_ > 0 && !sequences.empty(); --num_unused_) {
      inner_->propose(sequences, num_decodes);
      for (const DraftableSequence& one : sequences) one.sequence->draft.clear();
    }
    inner_->propose(sequences, num_decodes);
    for (const DraftableSequence& one : sequences) {
      EXPECT_LE(std::ssize(one.sequence->draft), one.limit);
      std::vector<TokenId> text = one.sequence->tokens;
      for (const TokenId draft : one.sequence->draft) {
        EXPECT_EQ(draft, fake::sample(fake::attended_after(text), 0, 0, 0, 0).token);
        text.push_back(draft);
      }
    }
  }
  void verified(Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted) override {
    inner_->verified(sequence, num_tried, num_accepted);
  }
  bool is_reproducible() const override { return inner_->is_reproducible(); }
  void clear_cache() override { inner_->clear_cache(); }
  Status release_memory() override { return inner_->release_memory(); }
  Status load_weights() override { return inner_->load_weights(); }

 private:
  std::unique_ptr<DraftProposer> inner_;
  int num_unused_;
};

// An engine with a draft model.
struct Drafting : Rig {
  explicit Drafting(const Options& options, const DraftOptions& drafts = {}) : Rig(options) {
    const std::int32_t block_size = 4;
    auto owned_runner = std::make_unique<fake::FakeModelRunner>(block_size, drafts.num_blocks);
    draft_runner = owned_runner.get();
    DraftModelConfig config{.speculative = {.method = DraftMethod::draft_model,
                                            .num_speculative_tokens = drafts.num_speculative_tokens,
                                            .disable_by_batch_size = drafts.disable_by_batch_size},
                            .max_num_seqs = options.engine.max_num_seqs,
                            .max_num_batched_tokens = drafts.max_num_batched_tokens,
                            .max_model_len = options.engine.max_model_len,
                            .vocab_size = drafts.vocab_size,
                            .served_vocab_size = fake::kVocabulary,
                            .cost = drafts.cost};
    auto owned = std::make_unique<ModelProposer>(
        config, std::move(owned_runner),
        std::make_unique<PagedKvManager>(
            PagedKvConfig{.block_size = block_size, .num_blocks = drafts.num_blocks, .verify_hits = true}));
    proposer = owned.get();
    core->steps().drafts().set_proposer(std::make_unique<CheckedDrafts>(std::move(owned), drafts.num_unused));
    core->add_observer(counts);
  }
  // Nothing is left but what is cached.
  void expect_nothing_held() {
    proposer->propose({}, 0);
    EXPECT_EQ(proposer->kv().num_free_blocks(), proposer->kv().num_blocks());
  }
  fake::FakeModelRunner* draft_runner;
  ModelProposer* proposer;
  Counts counts;
};

TEST(ModelProposer, BringsTheSameTokensInFewerSteps) {
  const Request request = make_request(1, {1, 2, 3, 4, 5}, 40);
  Drafting rig{Options{}};
  const auto sink = rig.submit(request);
  EXPECT_LT(rig.run_all(), 12);
  fake::expect_as_reference(request, *sink, 64);
  EXPECT_EQ(rig.counts.accepted, rig.counts.tried);
  EXPECT_GT(rig.counts.accepted, 28);
  // A row for each token of the text, and hardly one twice.
  EXPECT_LT(rig.draft_runner->num_computed_tokens, 5 + 40 + 10);
  rig.expect_nothing_held();
}

TEST(ModelProposer, NeverGoesBeyondTheEnd) {
  for (std::int32_t max_tokens = 1; max_tokens < 12; ++max_tokens) {
    Options options;
    options.engine.max_model_len = 13;
    options.num_blocks = 4;
    Drafting rig(options, {.num_blocks = 4, .num_speculative_tokens = 8});
    const Request request = make_request(1, {1, 2, 3, 4, 5}, max_tokens);
    const auto sink = rig.submit(request);
    rig.run_all();
    fake::expect_as_reference(request, *sink, options.engine.max_model_len);
  }
}

TEST(ModelProposer, CatchesUpInParts) {
  Options options;
  Drafting rig(options, {.max_num_batched_tokens = 4});
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 30; ++i) prompt.push_back(i);
  const Request request = make_request(1, prompt, 30);
  const auto sink = rig.submit(request);
  EXPECT_LT(rig.run_all(), 25);
  fake::expect_as_reference(request, *sink, options.engine.max_model_len);
  EXPECT_EQ(rig.counts.accepted, rig.counts.tried);
  EXPECT_GT(rig.counts.accepted, 10);
}

// A long prompt is worth its rows only if the answer becomes long.
TEST(ModelProposer, ReadsALongPromptOnlyForALongAnswer) {
  std::vector<TokenId> prompt(40, 3);
  for (const std::int32_t max_tokens : {2, 20}) {
    Drafting rig(Options{}, {.cost = 0.1});
    const auto sink = rig.submit(make_request(1, prompt, max_tokens));
    rig.run_all();
    EXPECT_EQ(rig.draft_runner->num_steps > 0, max_tokens == 20);
    EXPECT_TRUE(sink->finished);
  }
}

TEST(ModelProposer, AModelThatTakesAsLongIsNotAsked) {
  Drafting rig(Options{}, {.cost = 1});
  rig.submit(make_request(1, {1, 2, 3}, 30));
  EXPECT_EQ(rig.run_all(), 30);
  EXPECT_EQ(rig.draft_runner->num_steps, 0);
}

TEST(ModelProposer, IsNotAskedBesideMany) {
  Drafting rig(Options{}, {.disable_by_batch_size = 2});
  const auto longer = rig.submit(make_request(1, {1, 2, 3}, 40));
  rig.submit(make_request(2, {4, 5, 6}, 10));
  for (int i = 0; i < 8; ++i) rig.step();
  EXPECT_EQ(rig.draft_runner->num_steps, 0);
  rig.run_all();
  EXPECT_GT(rig.draft_runner->num_steps, 0) << "alone again";
  EXPECT_TRUE(longer->finished);
}

TEST(ModelProposer, ANewTurnFindsItsTextInTheCache) {
  Drafting rig{Options{}};
  std::vector<TokenId> prompt(24, 3);
  const auto first = rig.submit(make_request(1, prompt, 16));
  rig.run_all();
  const std::int64_t rows = rig.draft_runner->num_computed_tokens;
  std::ranges::copy(first->choices[0].tokens, std::back_inserter(prompt));
  const Request next = make_request(2, prompt, 12);
  const auto second = rig.submit(next);
  rig.run_all();
  fake::expect_as_reference(next, *second, 64);
  EXPECT_LT(rig.draft_runner->num_computed_tokens - rows, 24);
  EXPECT_EQ(rig.counts.accepted, rig.counts.tried);
}

// A sequence may miss several steps, during which its text does not grow.
TEST(ModelProposer, DraftsAgainAfterSequenceWasPaused) {
  const Request request = make_request(1, {1, 2, 3, 4, 5}, 50);
  Drafting rig(Options{}, {.num_unused = 6});
  const auto sink = rig.submit(request);
  rig.run_all();
  fake::expect_as_reference(request, *sink, 64);
  EXPECT_EQ(rig.counts.accepted, rig.counts.tried);
  EXPECT_GT(rig.counts.accepted, 20);
}

TEST(ModelProposer, TokensThatItDoesNotKnowHaveNoDrafts) {
  Drafting rig(Options{}, {.vocab_size = 20});
  const Request request = make_request(1, {1, 30, 3}, 20);
  const auto sink = rig.submit(request);
  rig.run_all();
  fake::expect_as_reference(request, *sink, 64);
  EXPECT_EQ(rig.draft_runner->num_steps, 0);
  rig.expect_nothing_held();
}

TEST(ModelProposer, AModelThatFailsDraftsNoMore) {
  Drafting rig{Options{}};
  rig.draft_runner->fail_at_step = 3;
  const Request request = make_request(1, {1, 2, 3}, 40);
  const auto sink = rig.submit(request);
  rig.run_all();
  fake::expect_as_reference(request, *sink, 64);
  EXPECT_FALSE(rig.proposer->status().ok());
  EXPECT_TRUE(rig.core->status().ok());
}

TEST(ModelProposer, SleepsWithTheEngine) {
  Drafting rig{Options{}};
  const Request request = make_request(1, {1, 2, 3, 4, 5}, 30);
  const auto sink = rig.submit(request);
  for (int i = 0; i < 3; ++i) rig.step();
  ASSERT_TRUE(rig.core->sleep(1).ok());
  EXPECT_TRUE(rig.draft_runner->released.load());
  rig.draft_runner->load_fails = true;
  EXPECT_FALSE(rig.core->wake_up({}).ok());
  EXPECT_TRUE(rig.core->asleep()) << "and may be woken once more";
  rig.draft_runner->load_fails = false;
  ASSERT_TRUE(rig.core->wake_up({}).ok());
  EXPECT_FALSE(rig.core->asleep());
  EXPECT_FALSE(rig.draft_runner->released.load());
  rig.run_all();
  fake::expect_as_reference(request, *sink, 64);
  EXPECT_EQ(rig.counts.accepted, rig.counts.tried);
}

TEST(ModelProposer, WhatIsErasedIsErasedThereToo) {
  Drafting rig{Options{}};
  rig.submit(make_request(1, std::vector<TokenId>(24, 3), 16));
  rig.run_all();
  const auto cached = [&] { return rig.proposer->kv().inspection().usage().cached_slots; };
  rig.proposer->propose({}, 0);
  EXPECT_GT(cached(), 0);
  rig.core->reset_prefix_cache();
  EXPECT_EQ(cached(), 0);
}

// Requests of all kinds, in pools that are too small for them.
TEST(ModelProposerProperty, AnswersAndKvAreRightUnderLoad) {
  std::int64_t accepted = 0, preemptions = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::uint64_t drawn = 0;
    const auto below = [&](std::uint64_t n) { return random_bits(seed, 5, ++drawn) % n; };
    Options options;
    options.num_blocks = static_cast<std::int32_t>(24 + below(40));
    options.num_swap_blocks = below(2) == 0 ? 0 : 16;
    options.engine.max_num_batched_tokens = static_cast<std::int32_t>(8 + below(40));
    const bool all_greedy = seed % 2 == 0;
    Drafting rig(options, {.num_blocks = static_cast<std::int32_t>(10 + below(60)),
                           .max_num_batched_tokens = static_cast<std::int32_t>(8 + below(40)),
                           .num_speculative_tokens = static_cast<std::int32_t>(1 + below(6)),
                           .cost = below(2) == 0 ? 0.0 : 0.02});
    std::vector<std::pair<Request, std::shared_ptr<Collector>>> told;
    for (std::uint64_t id = 1; id <= 12; ++id) {
      std::vector<TokenId> prompt;
      for (std::uint64_t i = 0, size = 1 + below(20); i < size; ++i)
        prompt.push_back(static_cast<TokenId>(random_bits(id % 3, 6, i) % fake::kVocabulary));
      Request request = make_request(id, std::move(prompt), static_cast<std::int32_t>(1 + below(30)));
      if (!all_greedy) {
        request.sampling.seed = id;
        request.sampling.temperature = below(2) == 0 ? 1.0f : 0.0f;
        if (below(4) == 0) request.sampling.n = request.sampling.best_of = 3;
      }
      told.emplace_back(request, rig.submit(request));
      for (std::uint64_t i = below(6); i > 0; --i) rig.step();
      if (below(8) == 0) rig.core->reset_prefix_cache();
    }
    rig.run_all();
    for (const auto& [request, sink] : told)
      fake::expect_as_reference(request, *sink, options.engine.max_model_len);
    if (all_greedy) EXPECT_EQ(rig.counts.accepted, rig.counts.tried) << "seed " << seed;
    accepted += rig.counts.accepted;
    preemptions += rig.core->scheduler().counts().preemptions;
    rig.expect_nothing_held();
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(preemptions, 20);
}

}  // namespace
}  // namespace pagoda
