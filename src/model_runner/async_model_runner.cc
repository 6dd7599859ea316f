#include "model_runner/async_model_runner.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/compute_beats.h"
#include "base/log.h"
#include "base/strings.h"

namespace pagoda {

AsyncModelRunner::AsyncModelRunner(std::unique_ptr<ModelRunner> runner) : runner_(std::move(runner)) {
  thread_ = std::thread([this] { loop(); });
}

AsyncModelRunner::~AsyncModelRunner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AsyncModelRunner::submit(const ScheduledBatch& batch) {
  Held* held = nullptr;
  {
    const std::lock_guard lock(mutex_);
    CHECK(num_submitted_ - num_waited_ < kMaxInFlight);
    held = &held_[static_cast<std::size_t>(num_submitted_ % kMaxInFlight)];
  }
  held->copy(batch);
  held->beats = &beats_of_this_thread();
  {
    const std::lock_guard lock(mutex_);
    ++num_submitted_;
  }
  changed_.notify_all();
}

StepResult AsyncModelRunner::wait() {
  std::unique_lock lock(mutex_);
  CHECK(num_waited_ < num_submitted_);
  changed_.wait(lock, [this] { return num_run_ > num_waited_; });
  return std::move(held_[static_cast<std::size_t>(num_waited_++ % kMaxInFlight)].result);
}

StepResult AsyncModelRunner::run(const ScheduledBatch& batch) {
  submit(batch);
  return wait();
}

void AsyncModelRunner::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return num_run_ == num_submitted_; });
}

void AsyncModelRunner::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return num_run_ < num_submitted_ || stopping_; });
    if (num_run_ == num_submitted_) return;
    Held& held = held_[static_cast<std::size_t>(num_run_ % kMaxInFlight)];
    lock.unlock();
    carry_out(held);
    lock.lock();
    ++num_run_;
    changed_.notify_all();
  }
}

// Behind a batch that failed nothing is run: what it should have drawn is not there.
void AsyncModelRunner::carry_out(Held& held) {
  count_compute_beats(*held.beats);
  held.result = {};
  held.result.status = failed_;
  if (!failed_.ok()) return;
  held.fill_in(drawn_);
  try {
    held.result = runner_->run(held.batch);
  } catch (const std::exception& error) {  // e.g. out of memory in a library
    log_error("engine", concat("the model runner threw: ", error.what()));
    held.result.status = internal_error("The engine has failed.");
  }
  failed_ = held.result.status;
  if (!failed_.ok()) return;
  drawn_.clear();
  for (const SequenceResult& sequence : held.result.sequences)
    drawn_.push_back(sequence.candidates.empty() ? kTokenInFlight : sequence.candidates.front().token);
}

void AsyncModelRunner::Held::copy(const ScheduledBatch& from) {
  batch = from;
  std::size_t num_tokens = 0, num_blocks = 0, num_tables = 0;
  for (const ScheduledSequence& sequence : batch.sequences) {
    num_tokens += sequence.all_tokens.size() + (sequence.drawn_at >= 0 ? 1 : 0);
    num_blocks += sequence.block_table.size();
    num_tables += sequence.more_tables.size();
    for (const KvTable& table : sequence.more_tables) num_blocks += table.blocks.size();
  }
  tokens.clear();
  blocks.clear();
  tables.clear();
  tokens.reserve(num_tokens);  // so that what is put in stays where it is
  blocks.reserve(num_blocks);
  tables.reserve(num_tables);
  const auto keep = [](auto& in, const auto& some) {
    const auto at = static_cast<std::ptrdiff_t>(in.size());
    in.insert(in.end(), some.begin(), some.end());
    return std::span(in.begin() + at, in.end());
  };
  for (ScheduledSequence& sequence : batch.sequences) {
    sequence.all_tokens = keep(tokens, sequence.all_tokens);
    if (sequence.drawn_at >= 0) {
      tokens.push_back(kTokenInFlight);
      sequence.all_tokens = {sequence.all_tokens.data(), sequence.all_tokens.size() + 1};
    }
    sequence.tokens = sequence.all_tokens.subspan(static_cast<std::size_t>(sequence.num_computed_tokens),
                                                  sequence.tokens.size());
    sequence.block_table = keep(blocks, sequence.block_table);
    const std::size_t first = tables.size();
    for (const KvTable& table : sequence.more_tables)
      tables.push_back({.blocks = keep(blocks, table.blocks), .first_row = table.first_row});
    sequence.more_tables = std::span(tables).subspan(first);
  }
}

void AsyncModelRunner::Held::fill_in(std::span<const TokenId> drawn) {
  std::size_t end = 0;
  for (ScheduledSequence& sequence : batch.sequences) {
    end += sequence.all_tokens.size();
    if (sequence.drawn_at < 0) continue;
    tokens[end - 1] = drawn[static_cast<std::size_t>(sequence.drawn_at)];
    CHECK(tokens[end - 1] != kTokenInFlight);
    sequence.drawn_at = -1;
  }
}

}  // namespace pagoda
