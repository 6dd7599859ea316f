#pragma once
// JobPool: threads for work that I/O threads must not do: JSON, templates, tokenizing, building answers. A
// job has an owner (a tenant) and a cost (bytes), and runs without interruption; job_queue.h orders jobs.
//     submit() -> waiting --a thread is free--> running -> done(End)
//                    |  cancel(): dropped, done is not called
//                    `--waited longer than max_wait, or its deadline--> done(late) at that time, not run
//   * One thread is reserved for small jobs. At most max_jobs and max_bytes of cost wait; an owner below its
//     share of max_jobs is admitted even if others have filled the queue.
//   * Every job that is not cancelled gets one done() on a pool thread, unless the pool ends first.
// Threads: any. Owner: the server.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "server/job_queue.h"

namespace pagoda {

class JobPool {
 public:
  struct Options {
    std::int32_t threads = 1;  // for jobs of any size; one more thread takes only small jobs
    std::size_t max_jobs = 1024;
    std::size_t max_bytes = std::size_t{256} << 20;
    std::size_t small_bytes = std::size_t{64} << 10;
    std::chrono::milliseconds max_wait{10'000};
  };
  enum class End { done, out_of_memory, late };
  struct Job {
    std::string owner;
    std::size_t cost = 0;
    std::function<void()> work;
    std::function<void(End)> done;  // may be empty; must only hand over and return
    TimeNs deadline = 0;            // the job is also late after this; 0: only after max_wait
  };
  using JobId = JobQueue::JobId;

  JobPool(Options options, const Clock& clock);  // borrows clock
  ~JobPool();                                    // stop()

  // resource_exhausted: too many jobs or too much cost is waiting.
  Result<JobId> submit(Job job);
  // Returns true if the job was still waiting; it is destroyed and done() is not called. Otherwise done() has
  // been or will be called.
  bool cancel(JobId id);
  // Waits for running jobs; drops waiting jobs.
  void stop();

  std::size_t num_waiting() const;

 private:
  using Lane = JobQueue::Lane;

  void run(Lane lane);
  void answer_late();
  bool is_full(const std::string& owner) const;
  Job take_out(JobId id);
  static void end(Job job, End end);

  const Options options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable ready_, due_;
  JobQueue queue_;
  std::unordered_map<JobId, Job> jobs_;  // waiting jobs
  JobId next_id_ = 1;
  std::size_t bytes_ = 0;  // waiting jobs
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pagoda
