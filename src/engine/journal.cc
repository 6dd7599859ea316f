#include "engine/journal.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {

Result<std::unique_ptr<Journal>> Journal::create(std::size_t capacity, MemoryBudget& budget,
                                                 MemoryBudget::AccountId account) {
  CHECK(capacity > 0);
  auto memory = budget.try_reserve(account, static_cast<std::int64_t>(capacity * sizeof(Entry)));
  if (!memory) return resource_exhausted(concat("not enough memory for a journal of ", capacity, " events"));
  return std::unique_ptr<Journal>(new Journal(capacity, *std::move(memory)));
}

void Journal::on_pool_event(const PoolEvent& event) {
  ring_[static_cast<std::size_t>(num_recorded_) % ring_.size()] = {
      .number = num_recorded_, .step = step_, .event = event};
  ++num_recorded_;
}

void Journal::on_scheduled(std::int64_t step, const ScheduledBatch& batch,
                           std::span<SequenceGroup* const> preempted) {
  step_ = step;
  for (const SequenceGroup* group : preempted) {
    for (const auto& sequence : group->sequences)
      if (!sequence->finished()) on_pool_event({.kind = PoolEventKind::preempt, .sequence = sequence->id});
  }
  const auto swaps = [this](PoolEventKind kind, const std::vector<SwapCopy>& copies) {
    for (const SwapCopy& copy : copies)
      on_pool_event(
          {.kind = kind, .block = index(copy.block), .to = static_cast<std::int32_t>(copy.swap_block)});
  };
  swaps(PoolEventKind::swap_out, batch.swap_out);
  swaps(PoolEventKind::swap_in, batch.swap_in);
  for (const BlockCopy& copy : batch.block_copies)
    on_pool_event({.kind = PoolEventKind::copy, .block = index(copy.from), .to = index(copy.to)});
}

void Journal::on_outcome(const StepOutcome& outcome) {
  const std::int64_t planned = std::exchange(step_, outcome.report.number);
  for (const Change& change : outcome.changes)
    if (change.verb == Verb::fork) on_pool_event({.kind = PoolEventKind::fork, .sequence = change.child->id});
  step_ = planned;
}

std::vector<Journal::Entry> Journal::read(std::int64_t first, std::size_t limit) const {
  std::vector<Entry> out;
  const std::int64_t oldest = std::max<std::int64_t>(0, num_recorded_ - std::ssize(ring_));
  for (std::int64_t n = std::max(first, oldest); n < num_recorded_ && out.size() < limit; ++n)
    out.push_back(ring_[static_cast<std::size_t>(n) % ring_.size()]);
  return out;
}

}  // namespace pagoda
