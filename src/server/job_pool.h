#pragma once
// JobPool: the threads that do for a request what the I/O threads must not: reading JSON, templates,
// tokenizing, building answers. A job has an owner (a connection), a cost (bytes) and can be taken back while
// it waits. Jobs run whole: what may be long is cut into several by whoever submits it.
//
//     submit() -> waiting --a thread is free--> running -> done(End)
//                    |  cancel(): gone, done is not called
//                    `--waited longer than max_wait, or its deadline--> done(late), not run
//
// Order: self-clocked fair queueing over owners: a job's tag is its owner's last one, or the time of the
// queue, plus its cost; the smallest tag is next. Owners with little to do go first, and who asks for much
// waits for itself alone. Small jobs have a thread of their own that no large one ever holds. Invariants: at
// most max_jobs and max_bytes of cost wait; every submitted job that was not cancelled gets exactly one
// done() on a thread of the pool, unless the pool ends first.
// Units: cost in bytes. Threads: any. Owner: the server.
// Source: Golestani, "A self-clocked fair queueing scheme for broadband applications", INFOCOM'94.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace pagoda {

class JobPool {
 public:
  struct Options {
    std::int32_t threads = 1;  // for jobs of any size; one more takes small ones only
    std::size_t max_jobs = 1024;
    std::size_t max_bytes = std::size_t{256} << 20;
    std::size_t small_bytes = std::size_t{64} << 10;
    std::chrono::milliseconds max_wait{10'000};
  };
  enum class End { done, out_of_memory, late };
  struct Job {
    std::uint64_t owner = 0;
    std::size_t cost = 0;
    std::function<void()> work;
    std::function<void(End)> done;  // may be empty; hands over and returns
    TimeNs deadline = 0;            // late after it, too; 0: only after max_wait
  };
  using JobId = std::uint64_t;

  JobPool(Options options, const Clock& clock);  // borrows clock
  ~JobPool();                                    // stop()

  // resource_exhausted: too many wait, or too much.
  Result<JobId> submit(Job job);
  // True: the job was still waiting; it is gone, and what it held is free. Otherwise done() has been or will
  // be called.
  bool cancel(JobId id);
  // Waits for what runs; drops what waits.
  void stop();

  std::size_t num_waiting() const;

 private:
  using Tag = std::pair<double, JobId>;
  struct Waiting {
    Job job;
    double begin;  // the tag without the job's own cost
    TimeNs since;
  };
  using Queue = std::map<Tag, Waiting>;

  void run(bool small_only);
  Queue* next_queue(bool small_only);
  double tag_of(std::uint64_t owner, std::size_t cost, double& begin);
  void execute(Waiting waiting);

  const Options options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  Queue small_, large_;
  std::unordered_map<JobId, Tag> tags_;                  // of the jobs that wait
  std::unordered_map<std::uint64_t, double> last_tags_;  // by owner; only those ahead of time_
  double time_ = 0;                                      // of the queue: where the latest job began
  JobId next_id_ = 1;
  std::size_t bytes_ = 0;  // of the jobs that wait
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pagoda
