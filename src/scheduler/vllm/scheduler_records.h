#pragma once
// SchedulerRecords: the state that the parts of VllmScheduler share: the queues, the step's budget and the
// step itself, with the configuration and the borrowed KV manager and admission order. Each part gets these
// records and the parts that it calls, and keeps only its private state. Threads: none; owned by the engine
// thread.
#include <cstdint>

#include "kv_cache/kv_manager.h"
#include "scheduler/admission_order.h"
#include "scheduler/scheduler.h"
#include "scheduler/vllm/group_queues.h"
#include "scheduler/vllm/step_plan.h"
#include "scheduler/vllm/token_budget.h"

namespace pagoda {

struct SchedulerRecords {
  SchedulerRecords(const SchedulerConfig& scheduler_config, KvManager& kv_manager,
                   AdmissionOrder& admission_order)
      : config(scheduler_config),
        kv(kv_manager),
        order(admission_order),
        takes_turns(order.takes_turns()),
        has_states(kv.geometry().has_states()),
        watermark_blocks(kv.num_blocks() / 100),
        budget(config.max_num_batched_tokens) {}

  // True if the group's prompt must be computed in one step.
  bool runs_whole(const SequenceGroup& group) const {
    return !config.enable_chunked_prefill || group.request.work.whole_prompt;
  }

  // The tokens per step for which blocks are promised, given that a step may take `chunk`. Beams are
  // validated for small steps (check_runs_alone): promising more blocks to one beam would take them from
  // another.
  std::int32_t promised_chunk(const SequenceGroup& group, std::int32_t chunk) const {
    return group.lockstep && !runs_whole(group) ? 1 : chunk;
  }

  StepPlan& plan() { return plans.latest(); }  // being planned, or planned last
  const StepPlan& plan() const { return plans.latest(); }

  const SchedulerConfig config;
  KvManager& kv;
  AdmissionOrder& order;
  const bool takes_turns, has_states;   // the order takes turns; some layers have states
  const std::int64_t watermark_blocks;  // kept free at admission, so that running groups can grow
  GroupQueues queues;
  TokenBudget budget;
  StepPlans plans;
};

}  // namespace pagoda
