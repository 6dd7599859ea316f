#include "constraint/grammar_service.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "constraint/schema_check.h"

namespace pagoda {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::chrono::milliseconds kWatch{20};
constexpr std::chrono::seconds kLastWait{3};  // at shutdown, for running compilations

std::chrono::nanoseconds cpu_time(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return std::chrono::nanoseconds(0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Status with_param(const Status& status, const std::string& param) {
  if (status.code() != StatusCode::invalid_argument) return status;
  return invalid_argument(concat("'", param, "' cannot be used: ", status.message(), "."))
      .with_param(param)
      .with_reason("invalid_grammar");
}

Status busy() {
  return resource_exhausted("Too many grammars are waiting to be compiled; please try again later.");
}

}  // namespace

struct GrammarService::State : std::enable_shared_from_this<State> {
  struct Waiter {
    std::string param;
    Done done;
  };
  struct Job {
    std::uint64_t owner;
    GrammarSpec spec;
    std::string key;
    std::vector<Waiter> waiters;
    // Start of the running compilation.
    SteadyTime began{};
    clockid_t clock{};
    std::chrono::nanoseconds cpu_began{};
    std::atomic<bool> given_up = false;
  };
  using JobPtr = std::shared_ptr<Job>;
  struct Cached {
    std::string key;
    CompiledConstraint compiled;
    std::int64_t bytes;
  };

  State(std::shared_ptr<const GrammarBackend> used, Options limits)
      : backend(std::move(used)), options(limits) {}

  const std::shared_ptr<const GrammarBackend> backend;
  const Options options;
  mutable std::mutex mutex;
  std::condition_variable work, watch, left;
  bool stopping = false;
  std::int64_t live = 0;                                // compiling threads, including those given up
  std::map<std::uint64_t, std::deque<JobPtr>> waiting;  // by owner
  std::deque<std::uint64_t> turns;                      // each owner in `waiting` once, in order
  std::unordered_map<std::string, JobPtr> open;         // waiting or being compiled, by key
  std::vector<JobPtr> running;                          // excluding those given up
  std::list<Cached> cache;                              // most recently used first
  std::unordered_map<std::string, std::list<Cached>::iterator> cached;
  Counts counts;
  std::thread watchdog;

  // True if all threads are stuck, so that none can take a job.
  bool blocked() const { return live == counts.stuck; }

  // Call with the lock held. False if the system cannot start another thread; the existing threads continue.
  bool start_worker() {
    ++live;
    try {
      std::thread([self = shared_from_this()] { self->work_on(); }).detach();
    } catch (const std::system_error&) {
      --live;
      return false;
    }
    return true;
  }
  // Warms up before starting the other threads, which would otherwise compute the same data concurrently.
  void start_first_worker() {
    ++live;
    std::thread([self = shared_from_this()] {
      self->backend->warm_up();
      {
        std::lock_guard lock(self->mutex);
        while (!self->stopping && self->live < self->options.max_at_once && self->start_worker()) {
        }
      }
      self->work_on();
    }).detach();
  }

  JobPtr next() {
    // New owners queue behind those already waiting.
    const auto owner = waiting.find(turns.front());
    turns.pop_front();
    JobPtr job = owner->second.front();
    owner->second.pop_front();
    if (owner->second.empty())
      waiting.erase(owner);
    else
      turns.push_back(owner->first);
    --counts.waiting;
    return job;
  }

  void work_on() {
    std::unique_lock lock(mutex);
    while (true) {
      work.wait(lock, [this] { return stopping || counts.waiting > 0; });
      if (stopping) break;
      const JobPtr job = next();
      running.push_back(job);
      job->began = std::chrono::steady_clock::now();
      pthread_getcpuclockid(pthread_self(), &job->clock);
      job->cpu_began = cpu_time(job->clock);
      watch.notify_one();
      lock.unlock();
      Result<CompiledConstraint> compiled = backend->compile(job->spec, &job->given_up);
      if (compiled && compiled->bytes + compiled->shared_bytes > options.max_grammar_bytes)
        compiled = invalid_argument("its grammar is too large");
      lock.lock();
      if (job->given_up) {
        --counts.stuck;
        if (live - counts.stuck > options.max_at_once) break;  // another thread has taken over
        continue;
      }
      std::erase(running, job);
      settle(lock, *job, std::move(compiled));
    }
    --live;
    left.notify_all();
  }

  // Completes the job for all its waiters, releasing the lock for the callbacks.
  void settle(std::unique_lock<std::mutex>& lock, Job& job, Result<CompiledConstraint> compiled) {
    open.erase(job.key);
    std::vector<Waiter> waiters = std::move(job.waiters);
    if (compiled) {
      ++counts.compiled;
      keep(job.key, *compiled);
    } else {
      ++counts.failed;
    }
    lock.unlock();
    for (Waiter& waiter : waiters) {
      if (compiled)
        waiter.done(*compiled);
      else
        waiter.done(with_param(compiled.error(), waiter.param));
    }
    waiters.clear();
    lock.lock();
  }

  void keep(const std::string& key, const CompiledConstraint& compiled) {
    const std::int64_t bytes = compiled.bytes + static_cast<std::int64_t>(2 * key.size()) + 256;
    if (bytes > options.cache_bytes || cached.contains(key)) return;
    cache.push_front({key, compiled, bytes});
    cached[key] = cache.begin();
    counts.cached_bytes += bytes;
    while (!cache.empty() && counts.cached_bytes + backend->live_shared_bytes() > options.cache_bytes) {
      counts.cached_bytes -= cache.back().bytes;
      cached.erase(cache.back().key);
      cache.pop_back();
    }
    counts.cached = static_cast<std::int64_t>(cache.size());
  }

  static bool is_late(const Options& options, const Job& job) {
    return cpu_time(job.clock) - job.cpu_began > options.max_compile_time ||
           std::chrono::steady_clock::now() - job.began > options.max_wall_time;
  }

  // Gives up jobs that take too long, and replaces their threads.
  void watch_over() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      if (running.empty()) {
        watch.wait(lock, [this] { return stopping || !running.empty(); });
        continue;
      }
      watch.wait_for(lock, kWatch);
      while (!stopping) {  // restart the search each time: settle() releases the lock
        const auto late =
            std::ranges::find_if(running, [this](const JobPtr& job) { return is_late(options, *job); });
        if (late == running.end()) break;
        give_up(lock, *late);
      }
    }
  }
  void give_up(std::unique_lock<std::mutex>& lock, JobPtr job) {
    std::erase(running, job);
    job->given_up = true;
    ++counts.given_up;
    if (++counts.stuck <= options.max_stuck) (void)start_worker();
    settle(lock, *job, invalid_argument("it takes too long to compile"));
    while (blocked() && !stopping && counts.waiting > 0) settle(lock, *next(), busy());
  }
};

GrammarService::GrammarService(std::shared_ptr<const GrammarBackend> backend, Options options)
    : state_(std::make_shared<State>(std::move(backend), options)) {
  std::lock_guard lock(state_->mutex);
  state_->start_first_worker();
  state_->watchdog = std::thread([state = state_] { state->watch_over(); });
}

GrammarService::~GrammarService() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->work.notify_all();
  state_->watch.notify_all();
  state_->left.wait_for(lock, kLastWait, [this] { return state_->live <= state_->counts.stuck; });
  lock.unlock();
  state_->watchdog.join();
}

void GrammarService::compile(std::uint64_t owner, GrammarSpec spec, Done done) {
  State& state = *state_;
  std::string key = spec.key();
  std::unique_lock lock(state.mutex);
  if (const auto found = state.cached.find(key); found != state.cached.end()) {
    ++state.counts.cache_hits;
    state.cache.splice(state.cache.begin(), state.cache, found->second);
    CompiledConstraint compiled = found->second->compiled;
    lock.unlock();
    return done(std::move(compiled));
  }
  State::Waiter waiter{.param = spec.param, .done = std::move(done)};
  if (const auto found = state.open.find(key); found != state.open.end()) {
    found->second->waiters.push_back(std::move(waiter));
    return;
  }
  std::optional<Status> refusal;
  const std::size_t max_bytes =
      spec.kind == GrammarSpec::Kind::structural_tag ? kMaxTagBytes : kMaxGrammarBytes;
  if (spec.text.size() > max_bytes)
    refusal = with_param(
        invalid_argument(concat("it has ", spec.text.size(), " bytes, and the limit is ", max_bytes)),
        spec.param);
  const auto queue = state.waiting.find(owner);
  if (!refusal &&
      (state.blocked() || state.counts.waiting >= static_cast<std::int64_t>(state.options.max_waiting) ||
       (queue != state.waiting.end() && queue->second.size() >= state.options.max_waiting_of_owner)))
    refusal = busy();
  if (refusal) {
    lock.unlock();
    return waiter.done(*refusal);
  }
  auto job = std::make_shared<State::Job>();
  job->owner = owner;
  job->key = key;
  job->spec = std::move(spec);
  job->waiters.push_back(std::move(waiter));
  state.open.emplace(std::move(key), job);
  std::deque<State::JobPtr>& jobs = state.waiting[owner];
  if (jobs.empty()) state.turns.push_back(owner);
  jobs.push_back(std::move(job));
  ++state.counts.waiting;
  lock.unlock();
  state.work.notify_one();
}

GrammarService::Counts GrammarService::counts() const {
  std::lock_guard lock(state_->mutex);
  return state_->counts;
}

}  // namespace pagoda
