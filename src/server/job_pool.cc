#include "server/job_pool.h"

#include <algorithm>
#include <exception>

#include "base/thread_turns.h"

namespace pagoda {
namespace {
constexpr double kJobCost = 4096;                         // base cost of any job, in bytes
constexpr double kBytesPerSecond = 8 << 20;               // throughput of JSON, template and tokenizer
constexpr std::size_t kSpare = 2;                         // multiple of max_jobs, for owners with few jobs
constexpr std::chrono::milliseconds kPoolLookOften{100};  // a passed-in clock may jump

double bytes_of(TimeNs duration) { return to_seconds(duration) * kBytesPerSecond; }

}  // namespace

JobPool::JobPool(Options options, const Clock& clock) : options_(options), clock_(clock) {
  for (std::int32_t i = 0; i < std::max(options.threads, 1); ++i)
    threads_.emplace_back([this] { run(Lane::any); });
  threads_.emplace_back([this] { run(Lane::small); });
  threads_.emplace_back([this] { answer_late(); });
}

JobPool::~JobPool() { stop(); }

bool JobPool::is_full(const std::string& owner) const {
  if (jobs_.size() < options_.max_jobs) return false;
  const std::size_t waiting = queue_.num_waiting(owner);
  const std::size_t owners = queue_.num_owners() + (waiting == 0 ? 1 : 0);
  const bool has_few = (waiting + 1) * owners <= options_.max_jobs;
  return !has_few || jobs_.size() >= kSpare * options_.max_jobs;
}

Result<JobPool::JobId> JobPool::submit(Job job) {
  bool small = false;
  JobId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || is_full(job.owner) || job.cost > options_.max_bytes - bytes_)
      return resource_exhausted("Too many requests are waiting; please try again later.");
    id = next_id_++;
    small = job.cost <= options_.small_bytes;
    TimeNs due = clock_.now() + std::chrono::nanoseconds(options_.max_wait).count();
    if (job.deadline != 0) due = std::min(due, job.deadline - 1);  // the job is late at its deadline
    const bool is_earliest = queue_.next_due() == 0 || due < queue_.next_due();
    queue_.push(id, job.owner, static_cast<double>(job.cost) + kJobCost, small, due);
    bytes_ += job.cost;
    jobs_.emplace(id, std::move(job));
    if (is_earliest) due_.notify_one();
  }
  // Any thread can take a small job; only some can take a large one, so all are notified.
  small ? ready_.notify_one() : ready_.notify_all();
  return id;
}

JobPool::Job JobPool::take_out(JobId id) {
  auto node = jobs_.extract(id);
  bytes_ -= node.mapped().cost;
  return std::move(node.mapped());
}

bool JobPool::cancel(JobId id) {
  Job gone;  // destroyed after unlocking: it may hold megabytes
  std::lock_guard lock(mutex_);
  if (!queue_.remove(id)) return false;
  gone = take_out(id);
  return true;
}

void JobPool::end(Job job, End end) {
  job.work = nullptr;  // frees its captures before done() is called
  if (job.done) job.done(end);
}

void JobPool::run(Lane lane) {
  prefer_short_turns();
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [&] { return stopping_ || queue_.has(lane); });
    if (stopping_) return;
    const TimeNs begun = clock_.now();
    if (const auto late = queue_.late(begun)) {
      Job job = take_out(*late);
      lock.unlock();
      end(std::move(job), End::late);
      lock.lock();
      continue;
    }
    const JobQueue::Taken taken = *queue_.take(lane);
    Job job = take_out(taken.id);
    lock.unlock();
    const std::string owner = job.owner;
    const auto cost = static_cast<double>(job.cost) + kJobCost;
    End how = End::done;
    try {
      job.work();
    } catch (const std::exception&) {  // out of memory: only this request fails
      how = End::out_of_memory;
    }
    const double measured = bytes_of(clock_.now() - begun);
    end(std::move(job), how);
    lock.lock();
    if (measured > cost) queue_.charge(owner, taken.tag, measured - cost);
  }
}

// Ends late jobs as soon as they are due, not only when a thread takes them.
void JobPool::answer_late() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimeNs now = clock_.now();
    if (const auto late = queue_.late(now)) {
      Job job = take_out(*late);
      lock.unlock();
      end(std::move(job), End::late);
      lock.lock();
      continue;
    }
    const TimeNs due = queue_.next_due();
    if (due == 0)
      due_.wait(lock);
    else
      due_.wait_for(
          lock, std::min(std::chrono::nanoseconds(due - now + 1), std::chrono::nanoseconds(kPoolLookOften)));
  }
}

void JobPool::stop() {
  std::unordered_map<JobId, Job> jobs;  // destroyed after unlocking
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs.swap(jobs_);
    queue_ = JobQueue();
    bytes_ = 0;
  }
  ready_.notify_all();
  due_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

std::size_t JobPool::num_waiting() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

}  // namespace pagoda
