// Goal: who comes next is decided by the order object alone, over plain records; one with a counter for each
// tenant fits in without a change of the scheduler. Method: a scheduler that runs one group at a time.
#include "scheduler/admission_order.h"

#include <gtest/gtest.h>

#include <map>
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

// The least served tenant first, by weight.
class Fair final : public AdmissionOrder {
 public:
  struct Log {
    std::map<std::string, std::int64_t, std::less<>> served;
    std::int64_t arrived = 0, left = 0;
  };
  explicit Fair(Log& log) : log_(log) {}
  std::int64_t rank(const OrderRecord& record) const override {
    const auto it = log_.served.find(record.tenant);
    return it == log_.served.end() ? 0 : it->second;
  }
  bool moves() const override { return true; }
  void arrived(const OrderRecord&) override { ++log_.arrived; }
  void served(const OrderRecord& record, std::int64_t num_tokens) override {
    log_.served[std::string(record.tenant)] += 1000 * num_tokens / record.weight;
  }
  void left(const OrderRecord&) override { ++log_.left; }

 private:
  Log& log_;
};

TEST(AdmissionOrder, ATenantWithManyRequestsDoesNotHoldUpAnother) {
  Fair::Log log;
  const std::vector<Asked> asked = {{"a"},       {"a"},       {"a"},       {"a"},
                                    {"b", 0, 2}, {"b", 0, 2}, {"b", 0, 2}, {"c", 0, 1, 24}};
  // a, then those who have got nothing; from then on b gets twice what a gets.
  EXPECT_EQ(order_of(asked, kOneAtATime, std::make_unique<Fair>(log)),
            std::vector<std::size_t>({0, 4, 7, 5, 1, 6, 2, 3}));
  EXPECT_EQ(log.served["a"], 32'000);
  EXPECT_EQ(log.served["b"], 12'000);
  EXPECT_EQ(log.served["c"], 24'000);
  EXPECT_EQ(log.arrived, 8);
  EXPECT_EQ(log.left, 8);
}

}  // namespace
}  // namespace pagoda
