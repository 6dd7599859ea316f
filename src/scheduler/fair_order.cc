#include "scheduler/fair_order.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "base/check.h"

namespace pagoda {
namespace {

// Cost of each kind of token, in tenths; and counter units per tenth, so that dividing by a weight loses
// little.
constexpr std::int64_t kPrompt = 10, kOutput = 20, kCached = 1, kUnit = 1024;
constexpr std::int32_t kMaxWeight = 1000;
constexpr std::int64_t kFirstGuess = 64;  // assumed output tokens of a request, until one has ended

std::int64_t by_weight(std::int64_t tenths, std::int32_t weight) { return tenths * kUnit / weight; }

}  // namespace

std::int64_t fair_charge(std::int64_t num_prompt_tokens, std::int64_t num_output_tokens,
                         std::int32_t weight) {
  return by_weight(kPrompt * num_prompt_tokens + kOutput * num_output_tokens,
                   std::clamp(weight, 1, kMaxWeight));
}

std::int32_t FairOrder::place_of(std::string_view name) {
  if (const auto known = places_.find(name); known != places_.end()) return known->second;
  if (places_.size() >= forget_at_) {
    forget_the_absent();
    forget_at_ = std::max<std::size_t>(64, 2 * places_.size());
  }
  std::int32_t place = static_cast<std::int32_t>(tenants_.size());
  if (free_.empty()) {
    tenants_.emplace_back();
  } else {
    place = free_.back();
    free_.pop_back();
  }
  tenants_[static_cast<std::size_t>(place)] = {.name = std::string(name)};
  places_.emplace(name, place);
  return place;
}

// Only tenants at or below the floor are forgotten: on return, their counter is set to the floor, which is no
// less.
void FairOrder::forget_the_absent() {
  std::erase_if(places_, [this](const auto& entry) {
    const Tenant& tenant = tenants_[static_cast<std::size_t>(entry.second)];
    if (tenant.here() || tenant.counter > floor_) return false;
    free_.push_back(entry.second);
    return true;
  });
}

void FairOrder::raise_floor() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Tenant& tenant : tenants_)
    if (tenant.here()) least = std::min(least, tenant.counter);
  if (least != std::numeric_limits<std::int64_t>::max()) floor_ = std::max(floor_, least);
}

std::int64_t FairOrder::arrived(const OrderRecord& record, OrderAccount& account) {
  raise_floor();
  account.tenant = place_of(record.tenant);
  account.weight = std::clamp(record.weight, 1, kMaxWeight);
  account.num_sequences = record.num_sequences;
  account.rank = rank_by_priority(record.priority, ++num_arrived_);
  Tenant& tenant = this->tenant(account);
  if (!tenant.here()) tenant.counter = std::max(tenant.counter, floor_);
  weight_here_ += account.weight - (tenant.here() ? tenant.weight : 0);
  tenant.weight = account.weight;
  ++tenant.num_waiting;
  return account.rank;
}

std::int64_t FairOrder::turn(const OrderAccount& account) const { return tenant(account).turn(); }

std::int64_t FairOrder::admitted(const OrderRecord& record, OrderAccount& account,
                                 std::int64_t num_cached_tokens) {
  CHECK(!account.running);
  Tenant& tenant = this->tenant(account);
  --tenant.num_waiting;
  ++tenant.num_running;
  tenant.seats += account.num_sequences;
  account.running = true;
  tenant.counter += by_weight(kCached * num_cached_tokens, account.weight);
  if (!account.begun) {
    account.begun = true;
    const std::int64_t mean = tenant.mean_output > 0 ? tenant.mean_output / 16 : kFirstGuess;
    const std::int64_t output = std::min(mean, record.max_output_tokens) * account.num_sequences;
    account.ahead = fair_charge(record.num_prompt_tokens - num_cached_tokens, output, account.weight);
    tenant.ahead += account.ahead;
  }
  return by_weight(tenant.seats, account.weight);
}

void FairOrder::preempted(OrderAccount& account) {
  CHECK(account.running);
  Tenant& tenant = this->tenant(account);
  --tenant.num_running;
  ++tenant.num_waiting;
  tenant.seats -= account.num_sequences;
  account.running = false;
}

void FairOrder::served(OrderAccount& account, std::int64_t num_prompt_tokens,
                       std::int64_t num_output_tokens) {
  Tenant& tenant = this->tenant(account);
  const std::int64_t service = fair_charge(num_prompt_tokens, num_output_tokens, account.weight);
  const std::int64_t paid = std::min(service, account.ahead);
  account.ahead -= paid;
  account.num_output_tokens += num_output_tokens;
  tenant.ahead -= paid;
  tenant.counter += service;
  floor_ += service * account.weight / weight_here_;
}

void FairOrder::left(OrderAccount& account) {
  raise_floor();  // while this tenant still counts as present
  Tenant& tenant = this->tenant(account);
  tenant.ahead -= account.ahead;
  account.ahead = 0;
  if (account.running) {
    --tenant.num_running;
    tenant.seats -= account.num_sequences;
  } else {
    --tenant.num_waiting;
  }
  account.running = false;
  if (!tenant.here()) weight_here_ -= tenant.weight;
  if (account.begun) {
    const std::int64_t each =
        16 * std::max<std::int64_t>(1, account.num_output_tokens / account.num_sequences);
    tenant.mean_output =
        tenant.mean_output == 0 ? each : tenant.mean_output + (each - tenant.mean_output) / 8;
  }
}

bool FairOrder::is_newcomer(const OrderAccount& account) const { return tenant(account).num_running == 0; }

bool FairOrder::may_displace(const OrderAccount& waiting, const OrderAccount& running) const {
  const Tenant &mine = tenant(waiting), &other = tenant(running);
  return mine.num_running == 0 && other.num_running > 1 && mine.turn() < other.turn() &&
         other.seats * waiting.weight > std::int64_t{waiting.num_sequences} * running.weight;
}

std::vector<TenantStanding> FairOrder::tenants() const {
  std::vector<TenantStanding> out;
  for (const Tenant& tenant : tenants_) {
    if (!tenant.here()) continue;
    out.push_back({.tenant = tenant.name,
                   .weight = tenant.weight,
                   .turn = tenant.turn(),
                   .num_waiting = tenant.num_waiting,
                   .num_running = tenant.num_running});
  }
  return out;
}

std::int64_t FairOrder::counter(std::string_view name) const {
  const auto known = places_.find(name);
  return known == places_.end() ? 0 : tenants_[static_cast<std::size_t>(known->second)].counter;
}

}  // namespace pagoda
