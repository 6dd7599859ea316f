#pragma once
// The parts of VllmScheduler over a paged KV cache, with groups to work on, for the tests of each part.
#include <memory>
#include <utility>
#include <vector>

#include "kv_cache/paged_kv_manager.h"
#include "scheduler/vllm/admission.h"
#include "scheduler/vllm/newcomers.h"

namespace pagoda::testing {

struct Parts {
  explicit Parts(const SchedulerConfig& config, PagedKvConfig kv_config)
      : kv(std::move(kv_config)),
        order(make_admission_order(config.policy)),
        policy(make_preemption_policy(config.preemption_mode)),
        records(config, kv, *order) {}

  // Adds a waiting group with one parked sequence of `length` tokens that no other prompt starts with.
  SequenceGroup& add(std::int32_t length, std::int32_t output = 0, std::string tenant = "") {
    SequenceGroup& group = *groups.emplace_back(std::make_unique<SequenceGroup>());
    group.request.prompt_token_ids.assign(static_cast<std::size_t>(length),
                                          static_cast<TokenId>(groups.size()));
    group.request.tenant = std::move(tenant);
    group.request.sampling.max_tokens = 100;
    group.forked = true;
    auto sequence = std::make_unique<Sequence>();
    sequence->id = ids.next();
    sequence->tokens = group.request.prompt_token_ids;
    sequence->tokens.resize(sequence->tokens.size() + static_cast<std::size_t>(output), 7);
    sequence->num_prompt_tokens = length;
    group.sequences.push_back(std::move(sequence));
    group.order = groups.size();
    group.rank = order->arrived(order_record(group.request), group.account);
    records.queues.insert_waiting(group);
    return group;
  }
  // Begins a step in which all running groups take part.
  void begin_step() {
    records.plans.begin();
    records.budget.begin_step();
    records.queues.set_num_in_turn(records.queues.running().size());
  }
  // Ends the step: its tokens are computed, and nothing is drawn.
  void end_step() {
    records.plan().planned();
    const ScheduledBatch& batch = records.plan().batch();
    for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
      Sequence& sequence = *records.plan().references()[i].sequence;
      sequence.num_computed_tokens +=
          static_cast<std::int32_t>(batch.sequences[i].tokens.size()) - batch.sequences[i].num_draft_tokens;
      kv.computed(sequence.id, sequence.tokens, sequence.num_computed_tokens);
    }
    records.plan().end(kv);
  }
  // Adds another sequence to the group, with the same tokens and blocks.
  Sequence& fork(SequenceGroup& group) {
    auto child = std::make_unique<Sequence>(*group.sequences.front());
    child->id = ids.next();
    kv.sharing().fork(group.sequences.front()->id, child->id);
    group.max_live_sequences = static_cast<std::int32_t>(group.sequences.size()) + 1;
    return *group.sequences.emplace_back(std::move(child));
  }
  void check_invariants() const {
    kv.inspection().check_invariants();
    records.queues.check_invariants();
    records.plans.check_invariants();
  }

  PagedKvManager kv;
  std::unique_ptr<AdmissionOrder> order;
  std::unique_ptr<PreemptionPolicy> policy;
  SchedulerRecords records;
  Swapping swapping{records, *policy};
  Preemption preemption{records, swapping, *policy};
  Growth growth{records, preemption};
  DraftRoom drafts{records};
  BatchFiller filler{records, growth, drafts};
  Arrivals arrivals{records};
  Admission admission{records, filler, growth, preemption, swapping, arrivals};
  Newcomers newcomers{records, admission, preemption, arrivals};
  SequenceIds ids;
  std::vector<std::unique_ptr<SequenceGroup>> groups;
};

}  // namespace pagoda::testing
