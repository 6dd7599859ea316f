#pragma once
// AdmissionOrder: decides which waiting group is admitted next, and which running group is preempted last. It
// decides by plain records and earlier calls alone; it reads no clock and knows no groups. Whether the next
// group fits is not checked here, and no group is skipped. Orders with turns (fair_order.h) also name groups
// to admit early because their tenant has nothing running.
//     arrived -> [ admitted -> served* -> preempted ]* -> left          one account for each group
// Invariants: results depend only on the records and calls so far; a rank does not change while its group
// waits or runs. Unless takes_turns(), only arrived() is called. Units: tokens. Threads: none; owned by the
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

// How waiting requests are ordered: by arrival; by a rank (OrderRules), so that the wait depends on the
// request; or in turns between tenants. Switch over it without a default, so that a new kind does not compile
// until every switch handles it.
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

// The properties of a request by which an order may decide.
struct OrderRecord {
  std::string_view tenant = {};  // valid while the request is being served
  std::int32_t weight = 1;
  std::int32_t priority = 0;
  WorkKind work = WorkKind::generate;
  std::int64_t num_prompt_tokens = 0, max_output_tokens = 0;
  std::int32_t num_sequences = 1;  // maximum that run at once
};

OrderRecord order_record(const Request& request);

// The current state of one tenant.
struct TenantStanding {
  std::string tenant;
  std::int32_t weight = 1;
  std::int64_t turn = 0;                          // for its waiting groups
  std::int64_t num_waiting = 0, num_running = 0;  // groups
};

class AdmissionOrder {
 public:
  virtual ~AdmissionOrder() = default;

  // Returns the rank with which the group waits: lower comes first; ties are broken by arrival.
  virtual std::int64_t arrived(const OrderRecord& record, OrderAccount& account) = 0;

  // True if tenants take turns. Constant. The functions below are for such orders only.
  virtual bool takes_turns() const { return false; }
  // The turn of a waiting request: the lowest comes first, regardless of rank.
  virtual std::int64_t turn(const OrderAccount&) const { return 0; }
  // Returns the rank with which the group runs: the last one is preempted first.
  virtual std::int64_t admitted(const OrderRecord&, OrderAccount& account,
                                std::int64_t /*num_cached_tokens*/) {
    return account.rank;
  }
  virtual void preempted(OrderAccount&) {}  // preempted or swapped out
  // Charges the tokens that a step computed for the group: prompt tokens (or recomputed ones), and output
  // tokens.
  virtual void served(OrderAccount&, std::int64_t /*num_prompt_tokens*/, std::int64_t /*num_output_tokens*/) {
  }
  virtual void left(OrderAccount&) {}  // the group has ended, for whatever reason
  // True if nothing of the group's tenant is running.
  virtual bool is_newcomer(const OrderAccount&) const { return false; }
  // True if a waiting newcomer may take the place of the running group.
  virtual bool may_displace(const OrderAccount& /*waiting*/, const OrderAccount& /*running*/) const {
    return false;
  }
  // Tenants with waiting or running groups.
  virtual std::vector<TenantStanding> tenants() const { return {}; }
};

// A scheduling policy: the order itself, and the facts that the queue forecast needs to predict it.
struct OrderRules {
  // The rank of the num_arrived-th request to arrive: lower comes first; ties are broken by arrival.
  std::int64_t (*rank)(const OrderRecord& record, std::int64_t num_arrived) =
      [](const OrderRecord&, std::int64_t) { return std::int64_t{0}; };
  // With turns: how far a request advances its tenant's turn.
  std::int64_t (*charge)(std::int64_t num_prompt_tokens, std::int64_t num_output_tokens,
                         std::int32_t weight) = [](std::int64_t, std::int64_t, std::int32_t) {
    return std::int64_t{0};
  };
  // Null: the order is by rank alone.
  std::unique_ptr<AdmissionOrder> (*make)() = nullptr;
};

#define PAGODA_SCHEDULING_POLICY(name, queue) OrderRules name##_rules();
#include "scheduler/scheduling_policies.def"
#undef PAGODA_SCHEDULING_POLICY

OrderRules rules(SchedulingPolicy policy);
std::unique_ptr<AdmissionOrder> make_admission_order(SchedulingPolicy policy);

// A priority value that is higher by one lets at most 1,024 later requests overtake, so every request gets
// its turn (ageing by arrivals, not by a clock).
std::int64_t rank_by_priority(std::int32_t priority, std::int64_t num_arrived);

}  // namespace pagoda
