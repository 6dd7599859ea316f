// Goal: who comes next is decided by the order object alone, over plain records; one with a counter for each
// tenant fits in without a change of the scheduler. Method: a scheduler that runs one group at a time.
#include "scheduler/admission_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kv_cache/paged_kv_manager.h"
#include "scheduler/vllm_scheduler.h"

namespace pagoda {
namespace {

struct Asked {
  std::string tenant;
  std::int32_t priority = 0, weight = 1;
  std::size_t prompt = 8;
};

// The groups in the order in which they are let in, by position in `asked`; each ends with its prompt.
std::vector<std::size_t> order_of(const std::vector<Asked>& asked, const SchedulerConfig& config,
                                  std::unique_ptr<AdmissionOrder> order) {
  PagedKvManager kv({.block_size = 4, .num_blocks = 64});
  VllmScheduler scheduler(config, kv, std::move(order));
  SequenceIds ids;
  std::vector<std::unique_ptr<SequenceGroup>> groups;
  for (const Asked& entry : asked) {
    SequenceGroup& group = *groups.emplace_back(std::make_unique<SequenceGroup>());
    group.request.prompt_token_ids.assign(entry.prompt, static_cast<TokenId>(groups.size()));
    group.request.tenant = entry.tenant;
    group.request.priority = entry.priority;
    group.request.weight = entry.weight;
    group.forked = true;
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ids.next();
    sequence->tokens = group.request.prompt_token_ids;
    sequence->num_prompt_tokens = sequence->num_tokens();
    group.sequences.push_back(std::move(sequence));
    scheduler.add(group);
  }
  std::vector<std::size_t> out;
  for (;;) {
    const ScheduledBatch& batch = scheduler.schedule();
    std::vector<Change> changes;
    for (const ScheduledRef& ref : scheduler.scheduled()) {
      const auto at = std::ranges::find(groups, ref.group, &std::unique_ptr<SequenceGroup>::get);
      out.push_back(static_cast<std::size_t>(at - groups.begin()));
      changes.push_back({.verb = Verb::free, .group = ref.group, .sequence = ref.sequence});
    }
    const bool done = batch.empty();
    scheduler.computed();
    scheduler.update(changes);
    scheduler.check_invariants();
    if (done) return out;
  }
}

const SchedulerConfig kOneAtATime{.max_num_seqs = 1, .max_num_batched_tokens = 64, .max_model_len = 64};

TEST(AdmissionOrder, FirstComeFirstServedAndByPriority) {
  const std::vector<Asked> asked = {{"a", 1}, {"a", 0}, {"b", 1}, {"b", 0}, {"c", -1}};
  EXPECT_EQ(order_of(asked, kOneAtATime, nullptr), std::vector<std::size_t>({0, 1, 2, 3, 4}));
  SchedulerConfig config = kOneAtATime;
  config.policy = SchedulingPolicy::priority;
  EXPECT_EQ(order_of(asked, config, nullptr), std::vector<std::size_t>({4, 1, 3, 0, 2}));
}

// Another order fits in without a change of the scheduler: here, the longest prompt first.
class LongestFirst final : public AdmissionOrder {
 public:
  std::int64_t arrived(const OrderRecord& record, OrderAccount& account) override {
    return account.rank = -record.num_prompt_tokens;
  }
};

TEST(AdmissionOrder, AnotherOneIsAnObject) {
  const std::vector<Asked> asked = {{"a", 0, 1, 4}, {"a", 0, 1, 16}, {"b", 0, 1, 8}};
  EXPECT_EQ(order_of(asked, kOneAtATime, std::make_unique<LongestFirst>()),
            std::vector<std::size_t>({1, 2, 0}));
}

TEST(AdmissionOrder, ATenantWithManyRequestsDoesNotHoldUpAnother) {
  const std::vector<Asked> asked = {{"a"},       {"a"},       {"a"},       {"a"},
                                    {"b", 0, 2}, {"b", 0, 2}, {"b", 0, 2}, {"c", 0, 1, 24}};
  SchedulerConfig config = kOneAtATime;
  config.policy = SchedulingPolicy::fair;
  // a, then those who have got nothing; from then on b gets twice what a gets.
  EXPECT_EQ(order_of(asked, config, nullptr), std::vector<std::size_t>({0, 4, 7, 5, 1, 6, 2, 3}));
}

// A step of a scheduler whose places are all taken by one tenant.
TEST(AdmissionOrder, ANewcomerGetsAPlaceAtOnce) {
  const SchedulerConfig config{
      .max_num_seqs = 4, .max_num_batched_tokens = 64, .max_model_len = 64, .policy = SchedulingPolicy::fair};
  PagedKvManager kv({.block_size = 4, .num_blocks = 64});
  VllmScheduler scheduler(config, kv);
  SequenceIds ids;
  std::vector<std::unique_ptr<SequenceGroup>> groups;
  const auto add = [&](const char* tenant) {
    SequenceGroup& group = *groups.emplace_back(std::make_unique<SequenceGroup>());
    group.request.prompt_token_ids.assign(8, static_cast<TokenId>(groups.size()));
    group.request.tenant = tenant;
    group.request.sampling.max_tokens = 50;
    group.forked = true;
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ids.next();
    sequence->tokens = group.request.prompt_token_ids;
    sequence->num_prompt_tokens = sequence->num_tokens();
    group.sequences.push_back(std::move(sequence));
    scheduler.add(group);
  };
  const auto step = [&] {
    scheduler.schedule();
    std::vector<const SequenceGroup*> ran;
    std::vector<Change> changes;
    for (const ScheduledRef& ref : scheduler.scheduled()) {
      ran.push_back(ref.group);
      changes.push_back({.verb = Verb::append, .group = ref.group, .sequence = ref.sequence});
      changes.back().token = 1;
    }
    scheduler.computed();
    scheduler.update(changes);
    scheduler.check_invariants();
    return ran;
  };
  for (int i = 0; i < 10; ++i) add("heavy");
  EXPECT_EQ(step().size(), 4u);
  add("light");
  const std::vector<const SequenceGroup*> ran = step();
  EXPECT_EQ(ran.size(), 4u);
  EXPECT_TRUE(std::ranges::find(ran, groups[10].get()) != ran.end());
  EXPECT_EQ(groups[3]->state, GroupState::waiting) << "the latest of the heavy one gave way";
  EXPECT_EQ(groups[3]->num_preemptions, 1);
  add("light");
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(groups[11]->state, GroupState::waiting) << "its second waits for its turn";
  add("third");
  step();
  EXPECT_EQ(groups[12]->state, GroupState::running);
  EXPECT_EQ(groups[2]->state, GroupState::waiting);
  for (const auto& group : groups)
    if (!group->finished()) scheduler.abort(*group);
  scheduler.check_invariants();
}

}  // namespace
}  // namespace pagoda
