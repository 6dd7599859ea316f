#include "engine/live_feed.h"

#include "base/check.h"

namespace pagoda {
namespace {

constexpr std::size_t kEvents = 8192, kKept = 4096;
constexpr std::int64_t kBytes = std::int64_t{1} << 20;

Result<std::unique_ptr<Journal>> make_journal(MemoryBudget& memory) {
  const auto account = memory.add_account("live", 0, kBytes);
  CHECK(account.has_value());
  return Journal::create(kEvents, memory, *account);
}

// Every block has its owner in the tables; what moved, and why, is told by these.
bool worth_telling(PoolEventKind kind) {
  return kind != PoolEventKind::allocate && kind != PoolEventKind::free;
}

}  // namespace

LiveFeed::LiveFeed() : memory_(kBytes) {
  auto journal = make_journal(memory_);
  CHECK(journal.has_value());
  journal_ = *std::move(journal);
}

void LiveFeed::on_step(std::int64_t number, const ScheduledBatch& batch, std::size_t num_preempted,
                       std::span<const Change> changes, TimeNs started, TimeNs finished) {
  if (steps_.size() >= kKept) {
    num_missed_ += std::ssize(steps_);
    steps_.clear();
  }
  LiveStep& step = steps_.emplace_back();
  step.number = number;
  step.started = started;
  step.finished = finished;
  for (const ScheduledSequence& sequence : batch.sequences) {
    const auto count = static_cast<std::int32_t>(sequence.tokens.size());
    const bool decodes = sequence.num_computed_tokens >= sequence.num_prompt_tokens;
    (decodes ? step.decode_tokens : step.prefill_tokens) += count;
    step.draft_tokens += sequence.num_draft_tokens;
  }
  for (const Change& change : changes) step.new_tokens += change.verb == Verb::append ? 1 : 0;
  step.num_sequences = static_cast<std::int32_t>(batch.sequences.size());
  step.num_preempted = static_cast<std::int32_t>(num_preempted);
  step.num_copies = static_cast<std::int32_t>(batch.block_copies.size());
  step.num_swapped_out = static_cast<std::int32_t>(batch.swap_out.size());
  step.num_swapped_in = static_cast<std::int32_t>(batch.swap_in.size());
}

void LiveFeed::on_counts(const SchedulerCounts& counts, std::int64_t blocks_in_use) {
  if (steps_.empty()) return;
  steps_.back().num_waiting = counts.waiting_groups + counts.swapped_groups;
  steps_.back().num_running = counts.running_groups;
  steps_.back().blocks_in_use = blocks_in_use;
}

void LiveFeed::on_ended(const LiveEnded& ended) {
  if (ended_.size() >= kKept) {
    num_missed_ += std::ssize(ended_);
    ended_.clear();
  }
  ended_.push_back(ended);
}

void LiveFeed::take(LiveState& state) {
  state.steps = std::exchange(steps_, {});
  state.ended = std::exchange(ended_, {});
  state.num_missed = std::exchange(num_missed_, 0);
  const std::vector<Journal::Entry> entries = journal_->read(num_read_, kEvents);
  if (!entries.empty()) state.num_missed += entries.front().number - num_read_;
  num_read_ = journal_->num_recorded();
  for (const Journal::Entry& entry : entries)
    if (worth_telling(entry.event.kind)) state.events.push_back({.step = entry.step, .event = entry.event});
}

}  // namespace pagoda
