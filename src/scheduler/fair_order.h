#pragma once
// FairOrder: weighted fair queueing over tenants, so that a tenant with many requests hardly delays a tenant
// with few. Within a tenant, priority and arrival decide.
//   * counter: service received / weight; a prompt token counts 1, an output token 2, a cached token 0.1.
//   * turn: counter + the service still expected for its running groups; the lowest is next.
//   * seat: the tenant's running sequences / weight; low seats get tokens first, the highest is preempted.
//   * A new tenant starts at the floor (the least counter present, or an equal share of all service): absence
//     earns no credit, and a stream of newcomers starves no tenant.
// Source: Sheng et al. (OSDI'24): VTC with lift; Goyal et al., "Start-time Fair Queuing" (SIGCOMM'96).
// Threads: none.
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/admission_order.h"

namespace pagoda {

// The amount that a request adds to its tenant's counter in total.
std::int64_t fair_charge(std::int64_t num_prompt_tokens, std::int64_t num_output_tokens, std::int32_t weight);

class FairOrder final : public AdmissionOrder {
 public:
  std::int64_t arrived(const OrderRecord& record, OrderAccount& account) override;
  bool takes_turns() const override { return true; }
  std::int64_t turn(const OrderAccount& account) const override;
  std::int64_t admitted(const OrderRecord& record, OrderAccount& account,
                        std::int64_t num_cached_tokens) override;
  void preempted(OrderAccount& account) override;
  void served(OrderAccount& account, std::int64_t num_prompt_tokens, std::int64_t num_output_tokens) override;
  void left(OrderAccount& account) override;
  bool is_newcomer(const OrderAccount& account) const override;
  bool may_displace(const OrderAccount& waiting, const OrderAccount& running) const override;
  std::vector<TenantStanding> tenants() const override;

  std::int64_t counter(std::string_view tenant) const;  // 0 if unknown
  std::size_t num_known() const { return places_.size(); }

 private:
  struct Tenant {
    std::string name;
    std::int32_t weight = 1;
    std::int64_t counter = 0, ahead = 0;
    std::int64_t num_waiting = 0, num_running = 0;  // groups
    std::int64_t seats = 0;                         // maximum number of sequences of its running groups
    std::int64_t mean_output = 0;  // output tokens per request, in sixteenths; 0: none has ended yet
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

  std::vector<Tenant> tenants_;  // indexed by place; free places are reused
  std::vector<std::int32_t> free_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> places_;
  std::size_t forget_at_ = 64;
  std::int64_t floor_ = 0;        // counter that a new tenant starts with
  std::int64_t weight_here_ = 0;  // sum of the weights of present tenants
  std::int64_t num_arrived_ = 0;
};

}  // namespace pagoda
