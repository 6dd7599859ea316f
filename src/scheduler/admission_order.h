#pragma once
// AdmissionOrder: which waiting group is next, and which running group is preempted last. It decides by plain
// records and earlier calls, reads no clock and knows no group; whether the next one fits is not its
// business: nobody is skipped. With turns (fair_order.h) it also says which group is admitted before its
// time, because nothing of its tenant runs.
//     arrived -> [ let_in -> served* -> gave_way ]* -> left          one account for each group
// Invariants: answers depend on records and calls so far alone; a rank does not change while its group waits
// or runs. Unless takes_turns(), only arrived() is called. Units: tokens. Threads: none; owned by the
// scheduler.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "request/order_account.h"
#include "request/request.h"

namespace pagoda {

enum class SchedulingPolicy : std::uint8_t {
#define PAGODA_SCHEDULING_POLICY(name, queue) name,
#include "scheduler/scheduling_policies.def"
#undef PAGODA_SCHEDULING_POLICY
};

// Arrival; a rank (OrderRules), so that a wait depends on the request; or turns between tenants. Whoever
// switches over it does so without a default: a policy of another kind does not compile until it is known
// everywhere.
enum class QueueOrder : std::uint8_t { arrival, rank, turns };

struct PolicyFacts {
  std::string_view name;
  QueueOrder queue;
};

inline constexpr PolicyFacts kSchedulingPolicies[] = {
#define PAGODA_SCHEDULING_POLICY(name, queue) {#name, QueueOrder::queue},
#include "scheduler/scheduling_policies.def"
#undef PAGODA_SCHEDULING_POLICY
};

constexpr const PolicyFacts& facts(SchedulingPolicy policy) {
  return kSchedulingPolicies[static_cast<std::size_t>(policy)];
}

// The facts by which an order may decide.
struct OrderRecord {
  std::string_view tenant = {};  // the request's, while it is served
  std::int32_t weight = 1;
  std::int32_t priority = 0;
  WorkKind work = WorkKind::generate;
  std::int64_t num_prompt_tokens = 0, max_output_tokens = 0;
  std::int32_t num_sequences = 1;  // that run at once, at most
};

OrderRecord order_record(const Request& request);

// How one tenant stands.
struct TenantStanding {
  std::string tenant;
  std::int32_t weight = 1;
  std::int64_t turn = 0;                          // as of its groups that wait
  std::int64_t num_waiting = 0, num_running = 0;  // groups
};

class AdmissionOrder {
 public:
  virtual ~AdmissionOrder() = default;

  // The rank that it waits with: lower comes first, and among equals who came first.
  virtual std::int64_t arrived(const OrderRecord& record, OrderAccount& account) = 0;

  // Whether tenants take turns. Constant. What follows is of such orders.
  virtual bool takes_turns() const { return false; }
  // The turn of a waiting request: the lowest comes first, before any rank.
  virtual std::int64_t turn(const OrderAccount&) const { return 0; }
  // The rank that it runs with: the last one is preempted first.
  virtual std::int64_t let_in(const OrderRecord&, OrderAccount& account, std::int64_t /*num_cached_tokens*/) {
    return account.rank;
  }
  virtual void gave_way(OrderAccount&) {}  // preempted or swapped out
  // Computed for it in a step: tokens of prompts (or once more), and of answers.
  virtual void served(OrderAccount&, std::int64_t /*num_prompt_tokens*/, std::int64_t /*num_output_tokens*/) {
  }
  virtual void left(OrderAccount&) {}  // it has ended, one way or another
  // Nothing of its tenant runs.
  virtual bool is_newcomer(const OrderAccount&) const { return false; }
  // A newcomer that waits may take the place of one that runs.
  virtual bool may_displace(const OrderAccount& /*waiting*/, const OrderAccount& /*running*/) const {
    return false;
  }
  virtual std::vector<TenantStanding> tenants() const { return {}; }  // that have anything here
};

// A scheduling policy: the order itself, and what the queue forecast has to know of it to be right.
struct OrderRules {
  // The rank of a request that arrives as the num_arrived-th: lower comes first, and among equals who came
  // first.
  std::int64_t (*rank)(const OrderRecord& record, std::int64_t num_arrived) =
      [](const OrderRecord&, std::int64_t) { return std::int64_t{0}; };
  // With turns: by how much a request moves its tenant's turn.
  std::int64_t (*charge)(std::int64_t num_prompt_tokens, std::int64_t num_output_tokens,
                         std::int32_t weight) = [](std::int64_t, std::int64_t, std::int32_t) {
    return std::int64_t{0};
  };
  // Null: ranks alone decide.
  std::unique_ptr<AdmissionOrder> (*make)() = nullptr;
};

#define PAGODA_SCHEDULING_POLICY(name, queue) OrderRules name##_rules();
#include "scheduler/scheduling_policies.def"
#undef PAGODA_SCHEDULING_POLICY

OrderRules rules(SchedulingPolicy policy);
std::unique_ptr<AdmissionOrder> make_admission_order(SchedulingPolicy policy);

// A priority that is higher by one lets 1,024 others overtake, and no more: who waits gets its turn (ageing
// by arrivals, not by a clock).
std::int64_t rank_by_priority(std::int32_t priority, std::int64_t num_arrived);

}  // namespace pagoda
