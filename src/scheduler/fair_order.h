#pragma once
// FairOrder: tenants take turns by what they have been given, so that one with many requests costs another
// with few nothing to speak of. Weighted fair queueing over tenants, with a counter for each:
//
//     counter   service so far by weight; a prompt's token counts 1, one of an answer 2, one found in the
//               prefix cache a tenth
//     turn      counter + what the groups of it that run have yet to get, as long as its answers are
//     seat      of a group that runs: how many sequences its tenant had running with it, by weight
//
// The lowest turn is next; within a tenant priority and arrival decide (rank_by_priority). What is charged
// ahead keeps a tenant that is behind from taking every place at once, and is given back where an answer is
// shorter. A tenant that comes, for the first time or again, starts at the floor: the least counter of those
// who are here, or the service that each of them would have had of all that was done (by weight), if that is
// more. So having been away is no credit, and tenants who come one after the other, each new, do not keep out
// one who waits: each that is served moves the floor on. Who runs is ranked by seat: tokens of a step go
// first to those with few, and the last group of the tenant with most gives way first, also for a newcomer: a
// tenant of which nothing runs, and whose turn is earlier. Invariants: turns, counters and seats are whole
// numbers and depend on the calls alone; counters never fall. Bounded: a tenant with nothing here is
// forgotten once its counter is no higher than the floor. Source: Sheng et al., "Fairness in Serving Large
// Language Models" (OSDI'24): VTC with lift, and its variant that charges ahead; Goyal et al., "Start-time
// Fair Queuing" (SIGCOMM'96). Threads: none.
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/admission_order.h"

namespace pagoda {

// A priority that is higher by one lets 1,024 others overtake, and no more: who waits gets its turn (ageing
// by arrivals, not by a clock).
std::int64_t rank_by_priority(std::int32_t priority, std::int64_t num_arrived);

// What a request is charged: what its counter will have moved by.
std::int64_t fair_charge(std::int64_t num_prompt_tokens, std::int64_t num_output_tokens, std::int32_t weight);

class FairOrder final : public AdmissionOrder {
 public:
  std::int64_t arrived(const OrderRecord& record, OrderAccount& account) override;
  bool takes_turns() const override { return true; }
  std::int64_t turn(const OrderAccount& account) const override;
  std::int64_t let_in(const OrderRecord& record, OrderAccount& account,
                      std::int64_t num_cached_tokens) override;
  void gave_way(OrderAccount& account) override;
  void served(OrderAccount& account, std::int64_t num_prompt_tokens, std::int64_t num_output_tokens) override;
  void left(OrderAccount& account) override;
  bool is_newcomer(const OrderAccount& account) const override;
  bool may_displace(const OrderAccount& waiting, const OrderAccount& running) const override;
  std::vector<TenantStanding> tenants() const override;

  std::int64_t counter(std::string_view tenant) const;  // 0: unknown
  std::size_t num_known() const { return places_.size(); }

 private:
  struct Tenant {
    std::string name;
    std::int32_t weight = 1;
    std::int64_t counter = 0, ahead = 0;
    std::int64_t num_waiting = 0, num_running = 0;  // groups
    std::int64_t seats = 0;                         // sequences of those that run, at most
    std::int64_t mean_output = 0;                   // of answers, in sixteenths; 0: none has ended
    bool here() const { return num_waiting + num_running > 0; }
    std::int64_t turn() const { return counter + ahead; }
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::int32_t place_of(std::string_view name);
  void forget_the_absent();
  Tenant& tenant(const OrderAccount& account) { return tenants_[static_cast<std::size_t>(account.tenant)]; }
  const Tenant& tenant(const OrderAccount& account) const {
    return tenants_[static_cast<std::size_t>(account.tenant)];
  }
  void raise_floor();

  std::vector<Tenant> tenants_;  // by place; free ones are reused
  std::vector<std::int32_t> free_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> places_;
  std::size_t forget_at_ = 64;
  std::int64_t floor_ = 0;        // where who comes starts
  std::int64_t weight_here_ = 0;  // of the tenants who are here
  std::int64_t num_arrived_ = 0;
};

}  // namespace pagoda
