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

// Tables show who owns a block; the other events show what moved, and why.
bool is_reported(PoolEventKind kind) {
  return kind != PoolEventKind::allocate && kind != PoolEventKind::free;
}

}  // namespace

LiveFeed::LiveFeed() : memory_(kBytes) {
  auto journal = make_journal(memory_);
  CHECK(journal.has_value());
  journal_ = *std::move(journal);
}

void LiveFeed::on_outcome(const StepOutcome& outcome) {
  journal_->on_outcome(outcome);
  if (steps_.size() >= kKept) {
    num_missed_ += std::ssize(steps_);
    steps_.clear();
  }
  const StepReport& report = outcome.report;
  const ScheduledBatch& batch = report.batch;
  StepSnapshot& step = steps_.emplace_back();
  step.number = report.number;
  step.started = report.started;
  step.finished = report.finished;
  for (const ScheduledSequence& sequence : batch.sequences) {
    const auto count = static_cast<std::int32_t>(sequence.tokens.size());
    const bool decodes = sequence.num_computed_tokens >= sequence.num_prompt_tokens;
    (decodes ? step.decode_tokens : step.prefill_tokens) += count;
    step.draft_tokens += sequence.num_draft_tokens;
  }
  for (const Change& change : outcome.changes) step.new_tokens += change.verb == Verb::append ? 1 : 0;
  step.num_sequences = static_cast<std::int32_t>(batch.sequences.size());
  step.num_preempted = static_cast<std::int32_t>(report.preempted.size());
  step.num_copies = static_cast<std::int32_t>(batch.block_copies.size());
  step.num_swapped_out = static_cast<std::int32_t>(batch.swap_out.size());
  step.num_swapped_in = static_cast<std::int32_t>(batch.swap_in.size());
}

void LiveFeed::on_state(const EngineHoldings& state) {
  if (state.num_batched_tokens == 0 || steps_.empty()) return;
  StepSnapshot& step = steps_.back();
  step.num_waiting = state.counts.waiting_groups + state.counts.swapped_groups;
  step.num_running = state.counts.running_groups;
  step.blocks_in_use = state.kv.num_blocks() - state.kv.num_free_blocks();
}

void LiveFeed::on_ended(const EndedRequest& ended) {
  if (ended_.size() >= kKept) {
    num_missed_ += std::ssize(ended_);
    ended_.clear();
  }
  ended_.push_back({.id = ended.request.id,
                    .reason = ended.reason,
                    .arrival = ended.times.arrival,
                    .first_scheduled = ended.times.first_scheduled,
                    .first_token = ended.times.first_token,
                    .ended = ended.ended,
                    .num_prompt_tokens = std::ssize(ended.request.prompt_token_ids),
                    .num_cached_tokens = ended.num_cached_tokens,
                    .num_output_tokens = ended.num_output_tokens,
                    .num_preemptions = ended.num_preemptions});
}

void LiveFeed::take(EngineSnapshot& snapshot) {
  snapshot.steps = std::exchange(steps_, {});
  snapshot.ended = std::exchange(ended_, {});
  snapshot.num_missed = std::exchange(num_missed_, 0);
  const std::vector<Journal::Entry> entries = journal_->read(num_read_, kEvents);
  if (!entries.empty()) snapshot.num_missed += entries.front().number - num_read_;
  num_read_ = journal_->num_recorded();
  for (const Journal::Entry& entry : entries)
    if (is_reported(entry.event.kind)) snapshot.events.push_back({.step = entry.step, .event = entry.event});
}

}  // namespace pagoda
