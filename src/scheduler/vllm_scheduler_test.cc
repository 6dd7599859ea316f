#include "scheduler/vllm_scheduler.h"

#include <gtest/gtest.h>

#include <memory>

#include "kv_cache/paged_kv_manager.h"

namespace pagoda {
namespace {

// Drives a scheduler without a runner: every sequence that catches up gets token 1 appended.
class Drive {
 public:
  Drive(SchedulerConfig config, PagedKvConfig kv_config, std::unique_ptr<PreemptionPolicy> policy = nullptr)
      : kv(std::move(kv_config)), scheduler(config, kv, nullptr, std::move(policy)) {}
  SequenceGroup& add(std::size_t prompt, std::int32_t priority = 0) {
    return add(std::vector<TokenId>(prompt, static_cast<TokenId>(100 + groups.size())), priority);
  }
  SequenceGroup& add(std::vector<TokenId> prompt, std::int32_t priority = 0, std::string salt = "") {
    auto group = std::make_unique<SequenceGroup>();
    group->request.prompt_token_ids = std::move(prompt);
    group->request.cache_salt = std::move(salt);
    group->request.sampling.max_tokens = 1000;
    group->request.priority = priority;
    group->forked = true;
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ids.next();
    sequence->tokens = group->request.prompt_token_ids;
    sequence->num_prompt_tokens = sequence->num_tokens();
    group->sequences.push_back(std::move(sequence));
    scheduler.add(*group);
    groups.push_back(std::move(group));
    return *groups.back();
  }
  // Tokens of each group in the step, by position in `groups`; 0: not in it.
  std::vector<std::int32_t> step() {
    const ScheduledBatch& batch = scheduler.schedule();
    std::vector<std::int32_t> counts(groups.size(), 0);
    changes.clear();
    for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
      const ScheduledRef ref = scheduler.scheduled()[i];
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (groups[g].get() == ref.group)
          counts[g] = static_cast<std::int32_t>(batch.sequences[i].tokens.size());
      }
      if (!batch.sequences[i].sample) continue;
      Change change{.verb = Verb::append, .group = ref.group, .sequence = ref.sequence};
      change.token = 1;
      changes.push_back(std::move(change));
    }
    scheduler.computed();
    scheduler.update(changes);
    return counts;
  }
  PagedKvManager kv;
  VllmScheduler scheduler;
  SequenceIds ids;
  std::vector<std::unique_ptr<SequenceGroup>> groups;
  std::vector<Change> changes;
};

using Counts = std::vector<std::int32_t>;

TEST(VllmScheduler, DecodesFirstThenChunksInArrivalOrder) {
  Drive drive({.max_num_seqs = 8, .max_num_batched_tokens = 10, .max_model_len = 64},
              {.block_size = 4, .num_blocks = 64});
  drive.add(4);
  EXPECT_EQ(drive.step(), Counts({4}));
  drive.add(14);
  drive.add(3);
  EXPECT_EQ(drive.step(), Counts({1, 9, 0}));
  EXPECT_EQ(drive.step(), Counts({1, 5, 3}));
  EXPECT_EQ(drive.step(), Counts({1, 1, 1}));
}

TEST(VllmScheduler, WithoutChunkingAPromptWaitsForABudgetThatHoldsIt) {
  Drive drive(
      {.max_num_seqs = 8, .max_num_batched_tokens = 16, .max_model_len = 16, .enable_chunked_prefill = false},
      {.block_size = 4, .num_blocks = 64});
  drive.add(10);
  drive.add(8);
  drive.add(2);
  EXPECT_EQ(drive.step(), Counts({10, 0, 0})) << "and nobody overtakes it";
  EXPECT_EQ(drive.step(), Counts({1, 8, 2}));
}

TEST(VllmScheduler, SequencesAreBounded) {
  Drive drive({.max_num_seqs = 2, .max_num_batched_tokens = 64, .max_model_len = 64},
              {.block_size = 4, .num_blocks = 64});
  for (int i = 0; i < 3; ++i) drive.add(4);
  EXPECT_EQ(drive.step(), Counts({4, 4, 0}));
  drive.scheduler.abort(*drive.groups[0]);
  EXPECT_EQ(drive.step(), Counts({0, 1, 4}));
}

TEST(VllmScheduler, TheLatestIsPreemptedAndComesBackFirst) {
  Drive drive({.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64},
              {.block_size = 4, .num_blocks = 4, .enable_prefix_caching = false});
  drive.add(8);
  drive.add(8);
  EXPECT_EQ(drive.step(), Counts({8, 8}));
  drive.add(4);
  EXPECT_EQ(drive.step(), Counts({1, 0, 0})) << "the second gives way, the third does not overtake it";
  EXPECT_EQ(drive.groups[1]->state, GroupState::waiting);
  EXPECT_EQ(drive.groups[1]->num_preemptions, 1);
  drive.scheduler.abort(*drive.groups[0]);
  EXPECT_EQ(drive.step(), Counts({0, 9, 4})) << "recomputed whole, its output token included";
  drive.scheduler.check_invariants();
}

TEST(VllmScheduler, TheLowestPriorityGivesWayFirst) {
  Drive drive({.max_num_seqs = 8,
               .max_num_batched_tokens = 64,
               .max_model_len = 64,
               .policy = SchedulingPolicy::priority},
              {.block_size = 4, .num_blocks = 4, .enable_prefix_caching = false});
  drive.add(8, /*priority=*/5);
  drive.add(8, /*priority=*/0);
  EXPECT_EQ(drive.step(), Counts({8, 8}));
  EXPECT_EQ(drive.step(), Counts({0, 1}));
}

// Another policy fits in without a change of the scheduler: here, the one with the fewest tokens to compute
// again.
class LeastLost final : public PreemptionPolicy {
 public:
  std::size_t victim(std::span<const PreemptionCandidate> candidates) override {
    const auto least = std::ranges::min_element(candidates, {}, &PreemptionCandidate::num_computed_tokens);
    return static_cast<std::size_t>(least - candidates.begin());
  }
  bool swaps(const SwapCost&, const PreemptionCosts&) override { return false; }
};

TEST(VllmScheduler, AnotherPreemptionPolicyIsAnObject) {
  const SchedulerConfig config{.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64};
  const PagedKvConfig pool{.block_size = 4, .num_blocks = 5, .enable_prefix_caching = false};
  for (const bool least_lost : {false, true}) {
    Drive drive(config, pool, least_lost ? std::make_unique<LeastLost>() : nullptr);
    drive.add(8);
    drive.add(4);
    drive.add(8);
    EXPECT_EQ(drive.step(), Counts({8, 4, 8}));
    EXPECT_EQ(drive.step(), least_lost ? Counts({1, 0, 0}) : Counts({1, 1, 0}));
    EXPECT_EQ(drive.groups[0]->state, GroupState::running) << "the oldest never gives way";
    drive.scheduler.check_invariants();
    for (int i = 0; i < 8; ++i) drive.step();
    drive.scheduler.abort(*drive.groups[0]);
    for (int i = 0; i < 8; ++i) drive.step();
    drive.scheduler.check_invariants();
  }
}

// A prompt of `common` equal tokens, then `own` of its own.
std::vector<TokenId> prompt_of(std::size_t common, std::size_t own, TokenId id) {
  std::vector<TokenId> tokens(common, 7);
  tokens.insert(tokens.end(), own, id);
  return tokens;
}

TEST(VllmScheduler, ACommonPrefixIsComputedOnce) {
  Drive drive({.max_num_seqs = 8, .max_num_batched_tokens = 16, .max_model_len = 64},
              {.block_size = 4, .num_blocks = 64});
  for (TokenId id = 1; id <= 3; ++id) drive.add(prompt_of(20, 2, id));
  EXPECT_EQ(drive.step(), Counts({16, 0, 0}));
  EXPECT_EQ(drive.step(), Counts({6, 0, 0})) << "the rest of the prefix: nobody computes it beside the first";
  EXPECT_EQ(drive.step(), Counts({1, 2, 2}));
  EXPECT_EQ(drive.groups[2]->num_cached_tokens, 20);
}

TEST(VllmScheduler, NobodyWaitsForWhatItCannotShare) {
  const SchedulerConfig config{.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 64};
  Drive drive(config, {.block_size = 4, .num_blocks = 64});
  drive.add(prompt_of(8, 2, 1));
  drive.add(prompt_of(3, 5, 2));            // less than a block
  drive.add(prompt_of(8, 2, 3), 0, "own");  // another salt
  EXPECT_EQ(drive.step(), Counts({10, 8, 10}));
  drive.add(prompt_of(8, 5, 4));  // all that is common has been computed
  EXPECT_EQ(drive.step(), Counts({1, 1, 1, 5}));

  Drive uncached(config, {.block_size = 4, .num_blocks = 64, .enable_prefix_caching = false});
  uncached.add(prompt_of(8, 2, 1));
  uncached.add(prompt_of(8, 2, 2));
  EXPECT_EQ(uncached.step(), Counts({10, 10}));
}

TEST(VllmScheduler, WhoeverWaitedForAPrefixGoesOnWithoutIt) {
  Drive drive({.max_num_seqs = 8, .max_num_batched_tokens = 8, .max_model_len = 64},
              {.block_size = 4, .num_blocks = 64});
  drive.add(prompt_of(20, 2, 1));
  drive.add(prompt_of(20, 2, 2));
  EXPECT_EQ(drive.step(), Counts({8, 0}));
  drive.scheduler.abort(*drive.groups[0]);
  EXPECT_EQ(drive.step(), Counts({0, 8})) << "from the blocks that were done";
  EXPECT_EQ(drive.groups[1]->num_cached_tokens, 8);
  drive.scheduler.check_invariants();
}

}  // namespace
}  // namespace pagoda
