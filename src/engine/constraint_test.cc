// Goal: a constrained request says only what its constraint lets it say, exactly as the definition has it, in
// every mode of scheduling, preemption, memory and drafts; it ends with its constraint, or with an error of
// its own; nobody beside it notices; and what the constraint decided is all that a repetition of the run
// needs. Method: the fake model under masks against a reference that asks the constraint anew for every
// token.
#include <gtest/gtest.h>

#include "decoding/ngram_proposer.h"
#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::one_of;
using fake::Options;
using fake::Rig;
using fake::scattered;

// Knows what will be drawn, constraint included; lies once in `lies_in` times, and drafts beyond the end.
class ConstrainedClairvoyant final : public SequenceProposer {
 public:
  ConstrainedClairvoyant(std::int32_t most, std::uint64_t lies_in) : most_(most), lies_in_(lies_in) {}

  void propose(const SequenceGroup& group, Sequence& sequence, std::int32_t limit, std::int32_t) override {
    std::vector<TokenId> tokens = sequence.tokens;
    for (std::int32_t i = 0; i < std::min(limit, most_); ++i) {
      const auto output = std::span(tokens).subspan(static_cast<std::size_t>(sequence.num_prompt_tokens));
      const fake::Allowed allowed = fake::allowed_after(group.request, output, fake::kVocabulary);
      const std::uint64_t attended = fake::attended_after(tokens, fake::adapter_of(group.request));
      TokenId token =
          fake::sample(attended, group.seed, static_cast<std::uint32_t>(sequence.index),
                       sequence.num_output_tokens() + i, group.sampling().temperature, allowed.mask)
              .token;
      const bool lie = lies_in_ > 0 && random_bits(2, ++calls_, 0) % lies_in_ == 0;
      if (lie) token = (token + 1) % fake::kVocabulary;
      tokens.push_back(token);
      sequence.draft.push_back(token);
      // From here on nobody knows.
      if (lie || allowed.dead_end || allowed.terminated) break;
    }
  }
  void verified(Sequence&, std::int32_t num_tried, std::int32_t num_accepted) override {
    EXPECT_TRUE(num_accepted >= 0 && num_accepted <= num_tried);
    accepted += num_accepted;
    rejected += num_tried - num_accepted;
  }
  std::int64_t accepted = 0, rejected = 0;

 private:
  const std::int32_t most_;
  const std::uint64_t lies_in_;
  std::uint64_t calls_ = 0;
};

struct DraftCounter final : StepObserver {
  void on_drafts_chosen(SequenceId, std::span<const TokenId>) override { ++cuts; }
  std::int64_t cuts = 0;
};

void expect_dead_end(const Collector& got) {
  ASSERT_TRUE(got.finished);
  EXPECT_EQ(got.error.code(), StatusCode::invalid_argument);
  EXPECT_EQ(got.error.reason(), "constraint_dead_end");
  for (const auto& [index, choice] : got.choices) EXPECT_TRUE(choice.reason.has_value()) << index;
}

TEST(Constraint, TheAnswerIsOneOfTheChoicesAndEndsWithIt) {
  Options options;
  Rig rig(options);
  Request request = make_request(1, {1, 2, 3}, 20);
  request.constraint = one_of({{5, 6, 7}, {5, 8}, {9}});
  const auto sink = rig.submit(request);
  rig.run_all();
  const std::vector<TokenId>& said = sink->choices[0].tokens;
  EXPECT_TRUE(said == std::vector<TokenId>({5, 6, 7}) || said == std::vector<TokenId>({5, 8}) ||
              said == std::vector<TokenId>({9}));
  EXPECT_EQ(sink->choices[0].reason, FinishReason::stop);
  EXPECT_TRUE(sink->error.ok());
  fake::expect_as_reference(request, *sink, options.engine.max_model_len);
}

TEST(Constraint, WhereOneChoiceBeginsAnotherTheModelDecidesWhenItEnds) {
  std::set<std::size_t> lengths;
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    Options options;
    Rig rig(options);
    Request request = make_request(1, {1, 2, 3}, 20);
    request.sampling.temperature = 1;
    request.sampling.seed = seed;
    request.constraint = one_of({{5}, {5, 8}});
    const auto sink = rig.submit(request);
    rig.run_all();
    fake::expect_as_reference(request, *sink, options.engine.max_model_len);
    EXPECT_EQ(sink->choices[0].reason, FinishReason::stop);
    lengths.insert(static_cast<std::size_t>(sink->choices[0].tokens.back()));
  }
  EXPECT_EQ(lengths, std::set<std::size_t>({0, 8}));  // {5, end} and {5, 8}
}

TEST(Constraint, ADeadEndIsTheRequestsOwnError) {
  for (const std::int32_t n : {1, 3}) {
    Options options;
    Rig rig(options);
    Request request = make_request(1, {1, 2, 3}, 20);
    request.sampling.n = n;
    request.sampling.best_of = n;
    request.sampling.temperature = n > 1 ? 1 : 0;
    request.constraint = one_of({{5, 6, -1}});
    const Request neighbour = make_request(2, {4, 5}, 12);
    const auto sink = rig.submit(request), other = rig.submit(neighbour);
    rig.run_all();
    expect_dead_end(*sink);
    for (std::int32_t i = 0; i < n; ++i) {
      EXPECT_EQ(sink->choices[i].tokens, std::vector<TokenId>({5, 6}));
      EXPECT_EQ(sink->choices[i].reason, FinishReason::error);
    }
    fake::expect_as_reference(neighbour, *other, options.engine.max_model_len);
    EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
  }
}

TEST(Constraint, BeamsGoOnWithoutTheOneThatCannotAndEndWhenNoneCan) {
  Options options;
  Rig rig(options);
  Request request = make_request(1, {1, 2, 3}, 20);
  request.sampling.use_beam_search = true;
  request.sampling.n = request.sampling.best_of = 2;
  request.constraint = one_of({{5, 6, -1}, {7, 8, 9}});
  const auto sink = rig.submit(request);
  rig.run_all();
  EXPECT_TRUE(sink->error.ok());
  ASSERT_EQ(sink->choices.size(), 1u);
  EXPECT_EQ(sink->choices[0].tokens, std::vector<TokenId>({7, 8, 9}));
  EXPECT_EQ(sink->choices[0].reason, FinishReason::stop);

  request.id = RequestId{2};
  request.constraint = one_of({{5, 6, -1}, {7, -1}});
  const auto dead = rig.submit(request);
  rig.run_all();
  expect_dead_end(*dead);
  EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks);
}

TEST(Constraint, DraftsAreCutToWhatMayBeSaid) {
  Options options;
  Rig rig(options);
  auto owned = std::make_unique<ConstrainedClairvoyant>(6, 0);
  const ConstrainedClairvoyant& proposer = *owned;
  rig.core->steps().drafts().set_proposer(std::move(owned));
  DraftCounter counter;
  rig.core->add_observer(counter);
  Request request = make_request(1, {1, 2, 3}, 20);
  request.constraint = one_of({{5, 6, 7, 8, 9, 10, 11, 12, 13}});
  const auto sink = rig.submit(request);
  const std::int64_t steps = rig.run_all();
  EXPECT_EQ(sink->choices[0].tokens.size(), 9u);
  EXPECT_EQ(sink->choices[0].reason, FinishReason::stop);
  EXPECT_LT(steps, 5);
  EXPECT_EQ(proposer.rejected, 0);
  EXPECT_EQ(proposer.accepted, 9 - steps);
  EXPECT_GT(counter.cuts, 0) << "the last token is never a draft";
}

// Every mode at once: n, best_of, beams, chunks, both kinds of preemption, prefix cache, drafts, dead ends.
TEST(Constraint, IsExactInEveryMode) {
  std::int64_t accepted = 0, rejected = 0, cuts = 0, preemptions = 0, swaps = 0, stops = 0, dead = 0,
               beams = 0, samples = 0, free_ones = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    std::uint64_t position = 0;
    const auto below = [&](std::uint64_t limit) { return random_bits(seed, 6, ++position) % limit; };
    const auto between = [&](int low, int high) {
      return low + static_cast<int>(below(static_cast<std::uint64_t>(high - low + 1)));
    };
    SCOPED_TRACE(seed);
    Options options;
    options.engine.max_model_len = 40;
    options.engine.block_size = between(1, 6);
    options.num_blocks = 40 / options.engine.block_size + between(1, 12);
    options.num_swap_blocks = below(2) == 0 ? 0 : between(1, options.num_blocks);
    options.virtual_kv = below(2) == 0;
    options.engine.max_num_seqs = between(1, 10);
    options.engine.enable_chunked_prefill = below(4) != 0;
    options.engine.max_num_batched_tokens = options.engine.enable_chunked_prefill ? between(1, 40) : 40;
    options.engine.preemption_mode = static_cast<PreemptionMode>(below(std::size(kPreemptionPolicies)));
    options.engine.preemption_costs = {.per_block_copied = 1, .per_token_recomputed = 1};
    Rig rig(options);
    auto owned = std::make_unique<ConstrainedClairvoyant>(between(1, 6), below(3) == 0 ? 0 : 2 + below(6));
    const ConstrainedClairvoyant& proposer = *owned;
    if (below(3) != 0) rig.core->steps().drafts().set_proposer(std::move(owned));
    DraftCounter counter;
    rig.core->add_observer(counter);
    struct Asked {
      Request request;
      std::shared_ptr<Collector> sink;
    };
    std::vector<Asked> all(1 + below(8));
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::vector<TokenId> prompt;
      for (int left = between(0, 9); left > 0; --left) prompt.push_back(static_cast<TokenId>(10 + left));
      for (int left = between(1, 6); left > 0; --left) prompt.push_back(static_cast<TokenId>(below(4)));
      Asked& asked = all[i];
      asked.request = make_request(i + 1, std::move(prompt), between(1, 24));
      SamplingParams& sampling = asked.request.sampling;
      sampling.n = below(2) == 0 ? 1 : between(1, 4);
      sampling.best_of = sampling.n + (below(4) == 0 ? between(1, 2) : 0);
      sampling.temperature = below(2) == 0 ? 0.0f : 1.0f;
      sampling.seed = seed * 100 + i;
      sampling.ignore_eos = below(3) != 0;
      sampling.use_beam_search = below(4) == 0;
      if (sampling.use_beam_search) sampling.temperature = 0;
      if (below(3) == 0) sampling.logprobs = 0;
      if (below(4) != 0)
        asked.request.constraint = scattered(seed * 10 + i, !sampling.use_beam_search && below(3) == 0);
      auto sink = std::make_shared<Collector>();
      if (rig.core->submit(asked.request, sink).ok()) asked.sink = sink;
      for (std::uint64_t steps = below(4); steps > 0; --steps) rig.step();
    }
    for (int step = 0; !rig.core->idle(); ++step) {
      ASSERT_LT(step, 3000);
      rig.step();  // and check_invariants()
    }
    const SchedulerCounts counts = rig.core->scheduler().counts();
    preemptions += counts.preemptions;
    swaps += counts.preemptions_by_swap;
    cuts += counter.cuts;
    EXPECT_EQ(rig.core->kv().num_free_blocks(), options.num_blocks) << "a leak";
    for (const Asked& asked : all) {
      if (!asked.sink) continue;
      const SamplingParams& sampling = asked.request.sampling;
      ASSERT_TRUE(asked.sink->finished);
      if (!asked.sink->error.ok()) {
        expect_dead_end(*asked.sink);
        // One of its samples was about to be led there.
        bool expected = false;
        for (std::int32_t i = 0; i < std::max(sampling.n, sampling.best_of); ++i)
          expected |=
              fake::reference(asked.request, i, options.engine.max_model_len).reason == FinishReason::error;
        EXPECT_TRUE(expected);
        ++dead;
        continue;
      }
      fake::expect_as_reference(asked.request, *asked.sink, options.engine.max_model_len);
      if (asked.request.constraint == nullptr) {
        ++free_ones;
        continue;
      }
      for (const auto& [index, choice] : asked.sink->choices) stops += choice.reason == FinishReason::stop;
      beams += sampling.use_beam_search ? 1 : 0;
      samples += !sampling.use_beam_search && sampling.n > 1 ? 1 : 0;
    }
    accepted += proposer.accepted;
    rejected += proposer.rejected;
  }
  const std::int64_t met[] = {accepted, rejected, cuts,  preemptions, swaps,
                              stops,    dead,     beams, samples,     free_ones};
  for (std::size_t i = 0; i < std::size(met); ++i) EXPECT_GT(met[i], 30) << "hardly met: number " << i;
}

// A run as a log could keep it: which drafts constraints left, and what the model answered with what they
// said.
struct Recording final : StepObserver {
  struct Step {
    std::vector<SequenceId> ids;
    std::vector<std::vector<TokenId>> tokens, drafts;
    StepResult result;
  };
  void on_drafts_chosen(SequenceId id, std::span<const TokenId> left) override {
    cut[{steps.size(), id}] = {left.begin(), left.end()};
  }
  void on_step(const StepReport& report) override {
    Step& step = steps.emplace_back();
    for (const ScheduledSequence& sequence : report.batch.sequences) {
      step.ids.push_back(sequence.id);
      step.tokens.emplace_back(sequence.tokens.begin(), sequence.tokens.end());
    }
    step.result = report.result;
  }
  std::map<std::pair<std::size_t, SequenceId>, std::vector<TokenId>> cut;
  std::vector<Step> steps;
};

class Repeater final : public ModelRunner {
 public:
  explicit Repeater(const Recording& recording) : recording_(recording) {}
  StepResult run(const ScheduledBatch& batch) override {
    const Recording::Step& step = recording_.steps.at(next++);
    EXPECT_EQ(batch.sequences.size(), step.ids.size());
    for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
      EXPECT_EQ(batch.sequences[i].id, step.ids[i]);
      EXPECT_TRUE(std::ranges::equal(batch.sequences[i].tokens, step.tokens[i])) << "step " << next;
      EXPECT_TRUE(batch.sequences[i].spec.masks.empty());
    }
    return step.result;
  }
  std::size_t next = 0;

 private:
  const Recording& recording_;
};

class RepeatedDrafts final : public DraftProposer {
 public:
  RepeatedDrafts(std::unique_ptr<DraftProposer> inner, const Recording& recording, const std::size_t& step)
      : inner_(std::move(inner)), recording_(recording), step_(step) {}
  void propose(std::span<const DraftableSequence> sequences, std::int32_t n) override {
    inner_->propose(sequences, n);
    for (const DraftableSequence& one : sequences) {
      const auto it = recording_.cut.find({step_, one.sequence->id});
      if (it != recording_.cut.end()) one.sequence->draft = it->second;
    }
  }
  void verified(Sequence& sequence, std::int32_t tried, std::int32_t accepted) override {
    inner_->verified(sequence, tried, accepted);
  }

 private:
  std::unique_ptr<DraftProposer> inner_;
  const Recording& recording_;
  const std::size_t& step_;
};

TEST(Constraint, TokensThatMustComeAreDraftedAndAlwaysRight) {
  const std::vector<std::vector<TokenId>> choices = {
      {5, 6, 7, 8, 9, 10, 11}, {5, 20, 21, 22, 23, 24}, {30, 31, 32, 0}};
  for (const bool sampled : {false, true}) {
    std::vector<std::vector<TokenId>> said;
    std::vector<std::int64_t> steps;
    for (const bool forced : {false, true}) {
      Options options;
      options.engine.forced_drafts = forced;
      Rig rig(options);
      DraftCounter counter;
      rig.core->add_observer(counter);
      Request request = make_request(1, {1, 2, 3}, 20);
      request.sampling.temperature = sampled ? 1 : 0;
      request.sampling.n = request.sampling.best_of = sampled ? 3 : 1;
      request.constraint = one_of(choices);
      const auto sink = rig.submit(request);
      rig.run_all();
      steps.push_back(rig.core->steps().num_steps());
      for (const auto& [index, choice] : sink->choices) said.push_back(choice.tokens);
      EXPECT_EQ(counter.cuts > 0, forced);
    }
    const std::size_t half = said.size() / 2;
    for (std::size_t i = 0; i < half; ++i) EXPECT_EQ(said[i], said[half + i]);
    EXPECT_LT(steps[1], steps[0]);
  }
}

// Whoever is held by no form must not wait for steps full of what others have to say anyway.
TEST(Constraint, AStepVerifiesFewTokensThatMustCome) {
  struct Widths final : StepObserver {
    void on_step(const StepReport& step) override {
      std::int32_t drafts = 0, decodes = 0;
      for (const ScheduledSequence& sequence : step.batch.sequences) {
        drafts += sequence.num_draft_tokens;
        decodes += sequence.spec.num_output_tokens > 0 ? 1 : 0;
        if (sequence.num_draft_tokens > 0) drafted.insert(sequence.id);
      }
      most = std::max(most, drafts);
      EXPECT_LE(drafts, decodes <= 1 ? 16 : decodes <= 32 ? 8 : 0) << decodes;
      crowded += decodes > 32 ? 1 : 0;
    }
    std::int32_t most = 0, crowded = 0;
    std::set<SequenceId> drafted;
  };
  std::vector<TokenId> word;
  for (TokenId i = 0; i < 60; ++i) word.push_back(1 + i % 30);
  for (const int others : {0, 1, 23, 63}) {
    Options options;
    options.num_blocks = 1200;
    options.engine.max_num_seqs = 64;
    options.engine.forced_drafts = true;
    Rig rig(options);
    Widths widths;
    rig.core->add_observer(widths);
    std::vector<std::shared_ptr<Collector>> sinks;
    for (std::uint64_t id = 1; std::cmp_less_equal(id, 1 + others); ++id) {
      Request request = make_request(id, {1, 2, static_cast<TokenId>(id % 30)}, 70);
      request.constraint = one_of({word});
      sinks.push_back(rig.submit(request));
    }
    rig.run_all();
    for (const auto& sink : sinks) EXPECT_EQ(sink->choices[0].tokens, word);
    if (others < 63) EXPECT_GE(widths.most, 8);
    EXPECT_EQ(widths.crowded > 0, others == 63);
    if (others < 63) EXPECT_EQ(widths.drafted.size(), sinks.size()) << "all have their turn";
    // A place's mask is asked for once: of 60 tokens each, and where a draft ended too early to know the
    // next.
    EXPECT_LE(rig.metrics.counter("pagoda:constraint_masks", "").value(),
              static_cast<double>(61 * sinks.size()));
  }
}

TEST(Constraint, WhatItDecidedRepeatsTheRunWithoutIt) {
  std::int64_t cuts = 0, dead = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Options options;
    options.num_blocks = 24;
    options.engine.forced_drafts = seed % 2 == 0;
    const SpeculativeConfig drafts{
        .num_speculative_tokens = 4, .prompt_lookup_max = 2, .prompt_lookup_min = 1};
    const auto submit_all = [&](EngineCore& core, bool constrained) {
      std::vector<std::shared_ptr<Collector>> sinks;
      for (std::uint64_t id = 1; id <= 5; ++id) {
        Request request = make_request(id, {1, 2, 3, static_cast<TokenId>(id)}, 30);
        request.sampling.n = request.sampling.best_of = id == 2 ? 3 : 1;
        request.sampling.temperature = id % 2 == 0 ? 1 : 0;
        request.sampling.use_beam_search = id == 5;
        if (id == 5) request.sampling.n = request.sampling.best_of = 2;
        if (constrained && id != 1 && id != 3) request.constraint = scattered(seed * 31 + id, id == 4);
        // Drafted from its own words: the constraint has another word here and there.
        if (constrained && id == 3) request.constraint = one_of({{7, 8, 7, 8, 7, 8, 9, 7, 8, 7, 8, 9, 7, 8}});
        sinks.push_back(std::make_shared<Collector>());
        EXPECT_TRUE(core.submit(request, sinks.back()).ok());
      }
      return sinks;
    };
    Recording recording;
    Rig rig(options);
    rig.core->add_observer(recording);
    rig.core->steps().drafts().set_proposer(std::make_unique<NgramProposer>(drafts));
    const auto wanted = submit_all(*rig.core, true);
    rig.run_all();
    cuts += std::ssize(recording.cut);

    fake::ManualClock clock;
    MetricsRegistry metrics;
    EngineParts parts = fake::make_parts(options);
    auto owned = std::make_unique<Repeater>(recording);
    Repeater& repeater = *owned;
    parts.runner = std::move(owned);
    EngineCore core(options.engine, std::move(parts), clock, metrics);
    core.steps().drafts().set_proposer(
        std::make_unique<RepeatedDrafts>(std::make_unique<NgramProposer>(drafts), recording, repeater.next));
    const auto got = submit_all(core, false);
    while (core.step()) {
    }
    EXPECT_EQ(repeater.next, recording.steps.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_TRUE(got[i]->finished);
      EXPECT_EQ(got[i]->error.reason(), wanted[i]->error.reason());
      dead += wanted[i]->error.ok() ? 0 : 1;
      ASSERT_EQ(got[i]->choices.size(), wanted[i]->choices.size());
      for (const auto& [index, choice] : wanted[i]->choices) {
        EXPECT_EQ(got[i]->choices[index].tokens, choice.tokens);
        EXPECT_EQ(got[i]->choices[index].reason, choice.reason);
      }
    }
  }
  EXPECT_GT(cuts, 10);
  EXPECT_GT(dead, 3);
}

}  // namespace
}  // namespace pagoda
