// TierEngine's communication with other processes: asks for and fetches their rows, and serves rows to them.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <unordered_set>

#include "base/aligned_buffer.h"
#include "model_runner/tier_engine.h"

namespace pagoda {

void TierEngine::work_remotely() {
  AlignedBuffer buffer(0);  // grows to the largest row
  Lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !remote_.empty(); });
    if (stopping_) return;
    const JobPtr job = std::move(remote_.front());
    remote_.pop_front();
    if (job->state == Job::State::answered) continue;
    job->state = Job::State::reading;
    if (job->kind == Job::Kind::ask) {
      ask(*job, lock);
      continue;
    }
    const std::size_t size = job->pages.size() * pages_.bytes;
    if (buffer.bytes().size() < size) buffer = AlignedBuffer(size);
    fetch_remote(*job, buffer.bytes().first(size), lock);
  }
}

void TierEngine::ask(Job& job, Lock& lock) {
  const std::uint64_t erasures = num_erasures_;
  lock.unlock();
  std::vector<TierKey> found;
  for (const auto& tier : std::span(tiers_).subspan(num_local_)) tier->ask(job.ask, job.deadline, found);
  lock.lock();
  if (job.state == Job::State::answered || erasures != num_erasures_) return answer(job, false);
  answer(job, !found.empty());
  for (const TierKey& key : found) news_.found.push_back({.key = key, .owner = job.ask.owner});
}

// Local tiers keep a copy, unless an erase was ordered meanwhile.
void TierEngine::fetch_remote(Job& job, std::span<std::byte> bytes, Lock& lock) {
  const std::uint64_t erasures = num_erasures_;
  lock.unlock();
  const bool found = std::ranges::any_of(std::span(tiers_).subspan(num_local_),
                                         [&](const auto& tier) { return tier->fetch(job.row, bytes); });
  lock.lock();
  if (job.state == Job::State::answered) return;  // too late or cancelled
  if (!found) return answer(job, false);
  ++num_working_;  // its pages must not be freed meanwhile
  copy_in(job, bytes, 0, lock);
  --num_working_;
  settled_.notify_all();
  if (erasing_ || erasures != num_erasures_) return;
  ++num_working_;
  lock.unlock();
  std::vector<TierGone> gone;
  TierSet kept = 0;
  for (std::size_t i = 0; i < num_local_; ++i)
    if (store_in(i, job.row, bytes, gone)) kept |= TierSet{1} << i;
  lock.lock();
  if (kept != 0 && erasures == num_erasures_) {
    news_.found.push_back({.key = job.row.key, .owner = job.row.owner, .tiers = kept});
    wake();
  }
  news_.gone.insert(news_.gone.end(), gone.begin(), gone.end());
  --num_working_;
  settled_.notify_all();
}

bool TierEngine::keeps(const TierKey& key) const {
  return std::ranges::any_of(std::span(tiers_).first(num_local_),
                             [&](const auto& tier) { return tier->lookup(key); });
}

// Looks rows up without the lock, which the engine thread takes in each step.
std::vector<bool> TierEngine::has(const Question& question) {
  std::vector<bool> out(question.keys.size());
  std::vector<std::size_t> missing(out.size());
  std::iota(missing.begin(), missing.end(), std::size_t{0});
  for (;;) {
    std::unordered_set<TierKey, TierKeyHasher> on_their_way;
    Lock lock(mutex_);
    const std::uint64_t stored = num_stores_answered_;
    for (const auto& [ticket, job] : jobs_)
      if (job->kind == Job::Kind::store) on_their_way.insert(job->row.key);
    lock.unlock();
    std::erase_if(missing, [&](std::size_t i) {
      out[i] = keeps(question.keys[i]);
      return out[i] || !on_their_way.contains(question.keys[i]);
    });
    const TimeNs left = question.deadline - clock_.now();
    if (missing.empty() || left <= 0) break;
    lock.lock();
    settled_.wait_for(lock, std::chrono::nanoseconds(left),
                      [&] { return !serving_ || num_stores_answered_ != stored; });
    if (!serving_) break;
  }
  std::vector<TierKey> held;
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i]) held.push_back(question.keys[i]);
  for (const auto& tier : std::span(tiers_).first(num_local_)) tier->hold(held, question.hold_until);
  return out;
}

bool TierEngine::read(const TierRow& row, std::span<std::byte> bytes) {
  Lock lock(mutex_);
  settled_.wait(lock, [this] { return !erasing_; });
  ++num_working_;
  lock.unlock();
  const bool found = std::ranges::any_of(std::span(tiers_).first(num_local_), [&](const auto& tier) {
    return tier->lookup(row.key) && tier->fetch(row, bytes);
  });
  lock.lock();
  --num_working_;
  settled_.notify_all();
  return found;
}

}  // namespace pagoda
