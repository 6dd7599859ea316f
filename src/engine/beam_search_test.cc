// Beam search block by block: Fig. 9 of PagedAttention (SOSP'23), the cost of a step in copies, and what is
// refused.
#include "decoding/beam_search.h"

#include <gtest/gtest.h>

#include "engine/beam_reference.h"
#include "engine/engine_test_support.h"
#include "scheduler/group_ops.h"

namespace pagoda {
namespace {

using fake::Collector;
using fake::make_request;
using fake::Options;
using fake::Rig;

// A beam search whose candidates the test gives, on a real KV manager.
class Board {
 public:
  explicit Board(std::int32_t width, std::size_t prompt)
      : kv({.block_size = 2, .num_blocks = 64, .enable_prefix_caching = false}), strategy(100) {
    group.request = make_request(1, std::vector<TokenId>(prompt, 7), 50);
    group.request.sampling.use_beam_search = true;
    group.request.sampling.n = width;
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ids.next();
    sequence->tokens = group.request.prompt_token_ids;
    sequence->num_prompt_tokens = sequence->num_tokens();
    sequence->state = SequenceState::resident;
    kv.add_sequence(sequence->id, sequence->tokens, "", true);
    group.sequences.push_back(std::move(sequence));
    strategy.start(group);
  }
  // Makes room for and computes what is known, then takes `candidates` by sequence; the number of copies.
  std::size_t step(std::vector<std::vector<Candidate>> candidates) {
    std::vector<BlockCopy> copies;
    std::vector<SequenceResult> results(candidates.size());
    std::vector<SampledSequence> sampled;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Sequence& sequence = *group.sequences[i];
      EXPECT_TRUE(kv.grow(sequence.id, sequence.num_tokens(), copies));
      kv.computed(sequence.id, sequence.tokens, sequence.num_tokens());
      sequence.num_computed_tokens = sequence.num_tokens();
      results[i].candidates = std::move(candidates[i]);
      sampled.push_back({&sequence, &results[i]});
    }
    std::vector<Change> changes;
    strategy.advance(group, sampled, ids, changes);
    for (Change& change : changes) apply_change(change, kv);
    kv.inspection().check_invariants();
    return copies.size();
  }
  std::vector<BlockId> table(std::size_t beam) const {
    const auto table = kv.tables(group.sequences[beam]->id).blocks;
    return {table.begin(), table.end()};
  }
  PagedKvManager kv;
  BeamSearchStrategy strategy;
  SequenceGroup group;
  SequenceIds ids;
};

std::vector<Candidate> candidates(std::vector<std::pair<TokenId, float>> list) {
  std::vector<Candidate> out;
  for (const auto& [token, logprob] : list) out.push_back({.token = token, .logprob = logprob, .rank = 0});
  return out;
}

// Fig. 9 with the paper's ids. Candidates 0-2 share blocks 0, 1 and 3, candidate 3 has only block 0 with
// them. The next four all come from 1 and 2: blocks 2, 4, 5 and 8 go, and 9-12 are new.
TEST(BeamSearch, Figure9) {
  PagedKvManager kv({.block_size = 4, .num_blocks = 16});
  SequenceGroup group;
  std::vector<BlockCopy> copies;
  SequenceIds ids;
  const auto grow = [&](Sequence& sequence) {  // one more block, full
    const auto full = static_cast<std::size_t>(sequence.num_tokens()) + 4;
    sequence.tokens.resize(full, static_cast<TokenId>(sequence.id));
    ASSERT_TRUE(kv.grow(sequence.id, sequence.num_tokens(), copies));
    kv.computed(sequence.id, sequence.tokens, sequence.num_tokens());
    sequence.num_computed_tokens = sequence.num_tokens();
  };
  const auto change = [&](Verb verb, Sequence& sequence) -> Sequence* {
    Change change{.verb = verb, .group = &group, .sequence = &sequence};
    change.discard = verb == Verb::free;
    if (verb == Verb::fork) {
      change.child = std::make_unique<Sequence>();
      change.child->id = ids.next();
    }
    apply_change(change, kv);
    kv.inspection().check_invariants();
    return verb == Verb::fork ? group.sequences.back().get() : nullptr;
  };
  const auto table = [&](const Sequence& sequence) {
    std::vector<std::int32_t> out;
    for (const BlockId block : kv.tables(sequence.id).blocks) out.push_back(index(block));
    return out;
  };
  using Blocks = std::vector<std::int32_t>;

  group.sequences.push_back(std::make_unique<Sequence>());
  Sequence* const zero = group.sequences.front().get();
  zero->id = ids.next();
  zero->state = SequenceState::resident;
  kv.add_sequence(zero->id, {}, "", true);
  grow(*zero);
  Sequence* const three = change(Verb::fork, *zero);
  for (int i = 0; i < 2; ++i) grow(*zero), grow(*three);
  Sequence* const one = change(Verb::fork, *zero);
  Sequence* const two = change(Verb::fork, *zero);
  for (Sequence* sequence : {zero, one, two, three}) grow(*sequence);
  EXPECT_EQ(table(*zero), Blocks({0, 1, 3, 5}));
  EXPECT_EQ(table(*one), Blocks({0, 1, 3, 6}));
  EXPECT_EQ(table(*two), Blocks({0, 1, 3, 7}));
  EXPECT_EQ(table(*three), Blocks({0, 2, 4, 8}));
  EXPECT_EQ(kv.parts().pool.ref_count(BlockId{0}), 4);
  EXPECT_EQ(kv.parts().pool.ref_count(BlockId{3}), 3);

  Sequence* const from_one = change(Verb::fork, *one);
  Sequence* const from_two = change(Verb::fork, *two);
  change(Verb::free, *zero);
  change(Verb::free, *three);
  for (const std::int32_t freed : {2, 4, 5, 8}) EXPECT_EQ(kv.parts().pool.ref_count(BlockId{freed}), 0);
  for (Sequence* sequence : {one, from_one, two, from_two}) grow(*sequence);
  EXPECT_EQ(table(*one), Blocks({0, 1, 3, 6, 9}));
  EXPECT_EQ(table(*from_one), Blocks({0, 1, 3, 6, 10}));
  EXPECT_EQ(table(*two), Blocks({0, 1, 3, 7, 11}));
  EXPECT_EQ(table(*from_two), Blocks({0, 1, 3, 7, 12}));
  EXPECT_EQ(kv.parts().pool.ref_count(BlockId{6}), 2);
  EXPECT_EQ(kv.parts().pool.ref_count(BlockId{3}), 4);
  EXPECT_TRUE(copies.empty());
}

// The same through the strategy, in blocks of two tokens.
TEST(BeamSearch, SharesFreesAndCopiesBlockByBlock) {
  Board board(4, 2);
  const auto refs = [&](BlockId block) { return board.kv.parts().pool.ref_count(block); };
  EXPECT_EQ(board.step({candidates({{10, -1}, {11, -1.1f}, {12, -1.2f}, {13, -9}, {14, -10}})}), 0u);
  ASSERT_EQ(board.group.sequences.size(), 4u);
  EXPECT_EQ(refs(board.table(0)[0]), 4) << "block 0 holds the prompt and is everybody's";
  EXPECT_EQ(board.kv.inspection().usage().blocks_in_use, 1);

  // The first token is in a block of each beam's own. Candidate 3 keeps to itself; 0, 1 and 2 become
  // descendants of the first beam.
  EXPECT_EQ(board.step({candidates({{20, -1}, {21, -1.01f}, {22, -1.02f}, {23, -50}}),
                        candidates({{20, -60}, {21, -61}}), candidates({{20, -62}, {21, -63}}),
                        candidates({{20, -0.1f}, {21, -64}})}),
            0u)
      << "nobody wrote into a shared block";
  EXPECT_EQ(board.group.sequences.size(), 4u);
  EXPECT_EQ(board.kv.inspection().usage().blocks_in_use, 3)
      << "0, the block shared by three, and the fourth's";

  // Writing the second token: two of the three copy the block, the last writes in place.
  EXPECT_EQ(board.step({candidates({{30, -1}, {31, -50}}), candidates({{30, -1}, {31, -50}}),
                        candidates({{30, -1}, {31, -50}}), candidates({{30, -1}, {31, -50}})}),
            2u);
  EXPECT_EQ(board.kv.inspection().usage().blocks_in_use, 5);
  EXPECT_EQ(refs(board.table(0)[0]), 4);

  // A block further, nothing is copied: the full blocks stay where they are.
  EXPECT_EQ(board.step({candidates({{40, -80}, {41, -81}}), candidates({{40, -1}, {41, -1.1f}}),
                        candidates({{40, -1}, {41, -1.1f}}), candidates({{40, -80}, {41, -81}})}),
            0u);
  // The first and the last are dropped and what only they had is free: 0, and two tails of two blocks.
  ASSERT_EQ(board.group.sequences.size(), 4u);
  EXPECT_EQ(board.kv.inspection().usage().blocks_in_use, 5);
  EXPECT_EQ(board.kv.inspection().usage().blocks_without_sharing, 12);
  std::map<BlockId, int> tails;
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(board.table(i).size(), 3u);
    EXPECT_EQ(refs(board.table(i)[0]), 4);
    EXPECT_EQ(refs(board.table(i)[1]), 2);
    EXPECT_EQ(refs(board.table(i)[2]), 2);
    ++tails[board.table(i)[2]];
  }
  EXPECT_EQ(tails.size(), 2u);
}

TEST(BeamSearch, AForkCopiesAtMostOneBlock) {
  Options options;
  options.engine.enable_prefix_caching = false;
  Rig rig(options);
  Request request = make_request(1, std::vector<TokenId>(11, 5), 30);
  request.sampling.use_beam_search = true;
  request.sampling.n = 4;
  const auto sink = rig.submit(request);
  std::int64_t copies = 0;
  while (rig.step()) {
    EXPECT_LE(rig.runner->num_copies - copies, 3) << "four beams share one block at the most";
    copies = rig.runner->num_copies;
  }
  EXPECT_GT(copies, 0);
  EXPECT_EQ(sink->num_outputs, 1);
  EXPECT_EQ(rig.runner->num_computed_tokens, 11 + 4 * 29) << "the prompt once, then a token a beam";
  fake::expect_as_beam_reference(request, *sink, 64);
}

TEST(BeamSearch, StoppingEarlySavesStepsAndKeepsTheRule) {
  std::int64_t steps[3];
  for (int rule = 0; rule < 3; ++rule) {
    Rig rig({});
    Request request = make_request(1, {4, 4, 4}, 40);
    request.sampling.use_beam_search = true;
    request.sampling.n = 3;
    request.sampling.ignore_eos = false;
    request.sampling.early_stopping = static_cast<EarlyStopping>(rule);
    const auto sink = rig.submit(request);
    steps[rule] = rig.run_all();
    fake::expect_as_beam_reference(request, *sink, 64);
  }
  EXPECT_LE(steps[2], steps[1]);
  EXPECT_LE(steps[1], steps[0]);
  EXPECT_LT(steps[2], 40);
}

// Asked for, every step tells the best so far, and the last tells what was asked for, as without.
TEST(BeamSearch, WhoWantsToWatchSeesTheBestSoFar) {
  class Watcher final : public OutputSink {
   public:
    void on_output(RequestOutput output) override {
      if (output.finished) return last.on_output(std::move(output));
      ASSERT_EQ(output.deltas.size(), 1u);
      EXPECT_EQ(output.deltas[0].index, SequenceDelta::kBestSoFar);
      seen.push_back(std::move(output.deltas[0]));
    }
    std::vector<SequenceDelta> seen;
    fake::Collector last;
  };
  Rig rig({});
  Request request = make_request(1, {4, 4, 4}, 12);
  request.sampling.use_beam_search = true;
  request.sampling.n = 3;
  request.sampling.best_so_far = true;
  const auto sink = std::make_shared<Watcher>();
  ASSERT_TRUE(rig.core->submit(request, sink).ok());
  rig.run_all();
  fake::expect_as_beam_reference(request, sink->last, 64);
  ASSERT_EQ(sink->seen.size(), 11u) << "each step but the last";
  for (std::size_t i = 0; i < sink->seen.size(); ++i) {
    EXPECT_EQ(sink->seen[i].token_ids.size(), i + 1) << "nothing ends before its time here";
    EXPECT_LT(sink->seen[i].cumulative_logprob, 0);
  }
}

TEST(BeamSearch, GroupsChooseDifferentTokens) {
  Rig rig({});
  Request request = make_request(1, {8, 9}, 6);
  request.sampling.use_beam_search = true;
  request.sampling.n = 4;
  request.sampling.num_beam_groups = 4;
  request.sampling.diversity_penalty = 50;
  const auto sink = rig.submit(request);
  rig.run_all();
  fake::expect_as_beam_reference(request, *sink, 64);
  for (std::size_t at = 0; at < 6; ++at) {
    std::set<TokenId> tokens;
    for (const auto& [index, choice] : sink->choices) tokens.insert(choice.tokens[at]);
    EXPECT_EQ(tokens.size(), 4u) << "such a penalty forbids a token to the groups after it";
  }
}

// After a preemption the leader comes back alone, and the step's budget may have been set for it alone.
TEST(BeamSearch, ComesBackWholeUnderABudgetForItsLeader) {
  Options options;
  options.engine.enable_prefix_caching = false;
  options.num_blocks = 10;
  Rig rig(options);
  const Request first = make_request(1, std::vector<TokenId>(16, 5), 2);
  Request beams = make_request(2, {1, 2, 3, 4, 5, 6, 7, 8}, 8);
  beams.sampling.use_beam_search = true;
  beams.sampling.n = beams.sampling.best_of = 4;
  const auto first_sink = rig.submit(first);
  const auto sink = rig.submit(beams);
  rig.step();
  rig.step();
  ASSERT_EQ(rig.core->scheduler().counts().preemptions, 1)
      << "four last blocks are too many beside the first";
  ASSERT_TRUE(first_sink->finished);
  rig.step();  // the leader's
  rig.scheduler->set_token_budget(2);
  rig.run_all();
  fake::expect_as_reference(first, *first_sink, 64);
  fake::expect_as_beam_reference(beams, *sink, 64);
}

// A model that gives NaNs must not upset the sorting, in this step or, through the sums, in later ones.
TEST(BeamSearch, NotANumberIsTheWorstLogProbability) {
  Options options;
  options.engine.max_num_seqs = 20;
  options.num_blocks = 400;
  for (const bool use_beam_search : {true, false}) {
    Rig rig(options);
    rig.runner->nan_at_step = 0;
    Request request = make_request(1, {1, 2, 3}, 6);
    request.sampling.use_beam_search = use_beam_search;
    request.sampling.n = use_beam_search ? 20 : 19;
    request.sampling.best_of = 20;
    request.sampling.logprobs = 0;
    const auto sink = rig.submit(request);
    rig.run_all();
    ASSERT_EQ(std::ssize(sink->choices), request.sampling.n);
    for (const auto& [index, choice] : sink->choices) {
      EXPECT_EQ(choice.cumulative_logprob, -std::numeric_limits<double>::infinity());
      EXPECT_EQ(choice.logprobs.front(), -std::numeric_limits<float>::infinity());
    }
  }
}

TEST(BeamSearch, WhatItCannotDoIsRefusedByName) {
  Rig rig({});
  const auto refused = [&](std::string_view param, auto change) {
    Request request = make_request(1, {1, 2}, 4);
    request.sampling.use_beam_search = true;
    request.sampling.n = request.sampling.best_of = 2;
    change(request.sampling);
    const Status status = rig.core->validate(request);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << param;
    EXPECT_EQ(status.param(), param) << status.message();
  };
  using P = SamplingParams;
  refused("temperature", [](P& p) { p.temperature = 0.5f; });
  refused("repetition_penalty", [](P& p) { p.repetition_penalty = 1.1f; });
  refused("presence_penalty", [](P& p) { p.presence_penalty = 1; });
  refused("frequency_penalty", [](P& p) { p.frequency_penalty = 1; });
  refused("logit_bias", [](P& p) { p.logit_bias = {{1, 1.0f}}; });
  refused("min_tokens", [](P& p) { p.min_tokens = 2; });
  refused("beam_width", [](P& p) { p.beam_width = 1; });
  refused("beam_width", [](P& p) { p.beam_width = 129; });
  refused("beam_width", [](P& p) { p.beam_width = 21; });  // the vocabulary has 40
  refused("n", [](P& p) { p.n = p.best_of = 9; });         // max_num_seqs is 8
  refused("length_penalty", [](P& p) { p.length_penalty = std::nanf(""); });
  refused("num_beam_groups", [](P& p) { p.num_beam_groups = 3; });
  refused("diversity_penalty", [](P& p) { p.diversity_penalty = 1; });
  refused("beam_width", [](P& p) { p.use_beam_search = false, p.beam_width = 2; });
  refused("best_of", [](P& p) { p.n = 5, p.best_of = 3; });
  refused("diversity_penalty", [](P& p) { p.use_beam_search = false, p.diversity_penalty = 1; });
}

}  // namespace
}  // namespace pagoda
