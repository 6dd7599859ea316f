#include "server/job_pool.h"

#include <algorithm>
#include <exception>

#include "base/thread_turns.h"

namespace pagoda {
namespace {
constexpr double kJobCost = 4096;  // of any job, in bytes
constexpr std::size_t kMaxOwners = 4096;
}  // namespace

JobPool::JobPool(Options options, const Clock& clock) : options_(options), clock_(clock) {
  for (std::int32_t i = 0; i < std::max(options.threads, 1); ++i)
    threads_.emplace_back([this] { run(/*small_only=*/false); });
  threads_.emplace_back([this] { run(/*small_only=*/true); });
}

JobPool::~JobPool() { stop(); }

double JobPool::tag_of(std::uint64_t owner, std::size_t cost, double& begin) {
  if (last_tags_.size() >= kMaxOwners) {
    std::erase_if(last_tags_, [this](const auto& entry) { return entry.second <= time_; });
    if (last_tags_.size() >= kMaxOwners) last_tags_.clear();
  }
  double& last = last_tags_[owner];
  begin = std::max(last, time_);
  return last = begin + static_cast<double>(cost) + kJobCost;
}

Result<JobPool::JobId> JobPool::submit(Job job) {
  bool small = false;
  JobId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || tags_.size() >= options_.max_jobs || job.cost > options_.max_bytes - bytes_)
      return resource_exhausted("Too many requests are waiting; please try again.");
    id = next_id_++;
    small = job.cost <= options_.small_bytes;
    Waiting waiting{.job = std::move(job), .begin = 0, .since = clock_.now()};
    const Tag tag{tag_of(waiting.job.owner, waiting.job.cost, waiting.begin), id};
    bytes_ += waiting.job.cost;
    tags_.emplace(id, tag);
    (small ? small_ : large_).emplace(tag, std::move(waiting));
  }
  // A small job may be for any of the threads, a large one for some.
  small ? ready_.notify_one() : ready_.notify_all();
  return id;
}

bool JobPool::cancel(JobId id) {
  Queue::node_type gone;  // destroyed without the lock: it may hold megabytes
  std::lock_guard lock(mutex_);
  const auto it = tags_.find(id);
  if (it == tags_.end()) return false;
  gone = small_.extract(it->second);
  if (gone.empty()) gone = large_.extract(it->second);
  bytes_ -= gone.mapped().job.cost;
  tags_.erase(it);
  return true;
}

JobPool::Queue* JobPool::next_queue(bool small_only) {
  if (small_only || large_.empty()) return small_.empty() ? nullptr : &small_;
  if (small_.empty()) return &large_;
  return small_.begin()->first < large_.begin()->first ? &small_ : &large_;
}

void JobPool::run(bool small_only) {
  prefer_short_turns();
  std::unique_lock lock(mutex_);
  for (;;) {
    Queue* queue = nullptr;
    ready_.wait(lock, [&] { return stopping_ || (queue = next_queue(small_only)) != nullptr; });
    if (stopping_) return;
    auto node = queue->extract(queue->begin());
    Waiting waiting = std::move(node.mapped());
    tags_.erase(node.key().second);
    bytes_ -= waiting.job.cost;
    time_ = std::max(time_, waiting.begin);
    lock.unlock();
    execute(std::move(waiting));
    lock.lock();
  }
}

void JobPool::execute(Waiting waiting) {
  End end = End::done;
  const TimeNs now = clock_.now();
  if (now - waiting.since > std::chrono::nanoseconds(options_.max_wait).count() ||
      (waiting.job.deadline != 0 && now >= waiting.job.deadline)) {
    end = End::late;
  } else {
    try {
      waiting.job.work();
    } catch (const std::exception&) {  // out of memory: this request fails, the others go on
      end = End::out_of_memory;
    }
  }
  waiting.job.work = nullptr;  // what it held is free before anyone is told
  if (waiting.job.done) waiting.job.done(end);
}

void JobPool::stop() {
  Queue small, large;  // destroyed without the lock
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    small.swap(small_);
    large.swap(large_);
    tags_.clear();
    bytes_ = 0;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

std::size_t JobPool::num_waiting() const {
  std::lock_guard lock(mutex_);
  return tags_.size();
}

}  // namespace pagoda
