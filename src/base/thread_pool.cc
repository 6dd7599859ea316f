#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/compute_beats.h"
#include "base/thread_placement.h"

namespace pagoda {
namespace {

// A ticket packs (job number, next tile) into one word, so that claiming a tile also proves that the job is
// still current: a thread that was off its core while the job ended fails its compare-exchange and never
// touches the job's context.
constexpr int kTileBits = 24;
constexpr std::uint64_t kTileMask = (std::uint64_t{1} << kTileBits) - 1;
constexpr std::uint64_t kClosed = kTileMask;  // tile field while the job's fields are being written
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr auto kBetweenMoves = std::chrono::microseconds(500);

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Spins until `done()` for at most kSpin; false on timeout.
template <class Done>
bool spin_until(const Done& done) {
  for (int i = 0; i < 64; ++i) {
    if (done()) return true;
    relax();
  }
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

// A pool thread as seen by the other threads. `cpu` is only a hint and may be stale. The second cache line is
// written for each tile and rarely read.
struct alignas(64) Member {
  std::atomic<int> tid{0}, clock{0};
  std::atomic<int> cpu{-1};
  alignas(64) std::atomic<bool> at_work{false};  // has a tile or is about to claim one
  std::atomic<std::uint64_t> finished{0};        // tiles since the start

  void attach(ThreadHandle thread) {
    clock.store(thread.clock, std::memory_order_relaxed);
    tid.store(thread.tid, std::memory_order_relaxed);
  }
  ThreadHandle handle() const {
    return {.tid = tid.load(std::memory_order_relaxed), .clock = clock.load(std::memory_order_relaxed)};
  }
  void is_on(int now) {
    if (cpu.load(std::memory_order_relaxed) != now) cpu.store(now, std::memory_order_relaxed);
  }
  // True if the thread holds a tile that others wait for but has no core.
  bool stranded() const { return at_work.load(std::memory_order_relaxed) && off_core(handle()); }
};

// One thread's share of a job: every n-th tile, where n is the number of threads. Other threads take tiles
// from it once their own lanes are empty. Everything that a thread needs to begin lies in one cache line:
// passing a line between two cores without a common cache takes 0.15 us.
struct alignas(64) ThreadPool::Lane {
  std::atomic<std::uint64_t> ticket{kClosed};
  std::atomic<std::int64_t> end{0};  // number of tiles in this lane
  std::int64_t first_tile = 0, step = 1;
  std::atomic<const void*> context{nullptr};
  std::atomic<Function> function{nullptr};

  void open(std::uint64_t job, std::int64_t num_tiles, const void* job_context, Function job_function) {
    ticket.store(((2 * job - 1) << kTileBits) | kClosed, std::memory_order_relaxed);
    end.store((num_tiles - first_tile + step - 1) / step, std::memory_order_release);
    context.store(job_context, std::memory_order_release);
    function.store(job_function, std::memory_order_release);
    ticket.store((2 * job) << kTileBits, std::memory_order_release);
  }
  std::uint64_t job() const { return ticket.load(std::memory_order_acquire) >> kTileBits; }
  bool has_tiles(std::uint64_t of_job) const {
    const std::uint64_t current = ticket.load(std::memory_order_acquire);
    return current >> kTileBits == of_job &&
           static_cast<std::int64_t>(current & kTileMask) < end.load(std::memory_order_acquire);
  }
  // Runs the next tile of job `of_job`, if there is one.
  bool run_next(std::uint64_t of_job, int thread) {
    std::uint64_t current = ticket.load(std::memory_order_acquire);
    for (;;) {
      const auto tile = static_cast<std::int64_t>(current & kTileMask);
      // These values may belong to a later job; the ticket has then changed and the exchange fails.
      const std::int64_t last = end.load(std::memory_order_acquire);
      const void* const job_context = context.load(std::memory_order_acquire);
      const auto run_tile = function.load(std::memory_order_acquire);
      if (current >> kTileBits != of_job || tile >= last) return false;
      if (!ticket.compare_exchange_weak(current, current + 1, std::memory_order_acq_rel)) continue;
      run_tile(job_context, first_tile + tile * step, thread);
      return true;
    }
  }
};

struct ThreadPool::State {
  alignas(64) std::atomic<int> parked{0};
  std::atomic<int> signal{0};  // incremented to wake parked workers
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::vector<Lane> lanes;      // the caller's lane first, then the workers'
  std::vector<Member> members;  // in the same order
  std::uint64_t job = 0;
  std::uint64_t finished_by_workers = 0;  // expected sum of `finished` when the current job is done
  // False if there are more threads than cores: they have to share cores anyway.
  bool place = false;

  explicit State(int num_threads)
      : lanes(static_cast<std::size_t>(num_threads)), members(static_cast<std::size_t>(num_threads)) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      lanes[i].first_tile = static_cast<std::int64_t>(i);
      lanes[i].step = num_threads;
    }
  }

  Member& member(int thread) { return members[static_cast<std::size_t>(thread)]; }
  template <class Use>
  bool any_lane(int thread, const Use& use);
  bool has_tiles(int thread) {
    return any_lane(thread, [](const Lane& lane, std::uint64_t of_job) { return lane.has_tiles(of_job); });
  }
  bool run_tile(int thread) {
    return any_lane(thread, [&](Lane& lane, std::uint64_t of_job) { return lane.run_next(of_job, thread); });
  }
  void work(int worker);
  bool shares_core(int worker);
  template <class Done>
  void help_stranded(const Done& done);
  void wake() {
    signal.fetch_add(1);
    signal.notify_all();
  }
};

// True if `use` succeeds on any lane. The thread's own lane comes first: the others' cache lines are farther
// away.
template <class Use>
bool ThreadPool::State::any_lane(int thread, const Use& use) {
  const auto first = lanes.begin() + thread;
  // Lanes open one after another: work of a job that has not reached this thread's own lane can wait.
  const std::uint64_t current = first->job();
  const auto finds = [&](Lane& lane) { return use(lane, current); };
  return std::any_of(first, lanes.end(), finds) || std::any_of(lanes.begin(), first, finds);
}

// True if a pool thread with a lower index runs on the same core.
bool ThreadPool::State::shares_core(int worker) {
  const int cpu = current_cpu();
  member(worker).is_on(cpu);
  for (int other = 0; other < worker; ++other) {
    if (member(other).cpu.load(std::memory_order_relaxed) == cpu) return cpu >= 0;
  }
  return false;
}

// The caller has nothing left to do, but a worker that lost its core holds a tile: gives this core to that
// worker.
template <class Done>
void ThreadPool::State::help_stranded(const Done& done) {
  if (!place) return;
  for (std::size_t i = 1; i < members.size() && !done(); ++i) {
    if (!members[i].stranded()) continue;
    move_to_this_core(members[i].handle());
    for (int turn = 0; turn < 16 && !done(); ++turn) std::this_thread::yield();
  }
}

void ThreadPool::State::work(int worker) {
  Member& self = member(worker);
  const Lane& own = lanes[static_cast<std::size_t>(worker)];
  self.attach(ThreadHandle::of_this_thread());
  auto may_move = std::chrono::steady_clock::time_point{};
  for (;;) {
    // Read before the search, so that a job that arrives during the search counts as news.
    const std::uint64_t seen = own.job();
    while (has_tiles(worker)) {
      if (place && shares_core(worker)) {
        // On another core it may have to wait for another process; on this core the two wait for each other.
        if (const auto now = std::chrono::steady_clock::now(); now >= may_move) {
          may_move = now + kBetweenMoves;
          std::vector<int> taken;
          for (const Member& member : members) {
            if (&member != &self) taken.push_back(member.cpu.load(std::memory_order_relaxed));
          }
          leave_cores(taken);
          continue;
        }
      }
      self.at_work.store(true, std::memory_order_relaxed);
      // Counted per tile: the next claim may already belong to the next job.
      if (run_tile(worker))
        self.finished.store(self.finished.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    self.at_work.store(false, std::memory_order_relaxed);
    const auto news = [&] { return own.job() != seen || stop.load(std::memory_order_relaxed); };
    if (!spin_until(news)) {
      // The reverse case: this core is free for a caller that has lost its own.
      if (place && members[0].stranded()) move_to_this_core(members[0].handle());
      self.cpu.store(-1, std::memory_order_relaxed);
      const int before = signal.load();
      parked.fetch_add(1);
      // Either this thread sees the new ticket, or the caller sees `parked` and changes `signal`.
      if ((own.ticket.load() >> kTileBits) == seen && !stop.load()) signal.wait(before);
      parked.fetch_sub(1);
    }
    if (stop.load()) return;
  }
}

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>(num_threads)) {
  CHECK(num_threads >= 1);
  state_->place = num_threads <= static_cast<int>(std::thread::hardware_concurrency());
  for (int worker = 1; worker < num_threads; ++worker) {
    state_->threads.emplace_back([state = state_.get(), worker] { state->work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->wake();
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

namespace {
std::atomic<std::uint64_t> beats{0};
thread_local std::atomic<std::uint64_t>* own_beats = &beats;
}  // namespace

std::uint64_t compute_beats() { return beats.load(std::memory_order_relaxed); }
void count_compute_beats(std::atomic<std::uint64_t>& counter) { own_beats = &counter; }
std::atomic<std::uint64_t>& beats_of_this_thread() { return *own_beats; }

void ThreadPool::run(std::int64_t num_tiles, const void* context, Function function) {
  own_beats->fetch_add(1, std::memory_order_relaxed);
  if (num_tiles <= 1 || state_->threads.empty()) {
    for (std::int64_t tile = 0; tile < num_tiles; ++tile) function(context, tile, 0);
    return;
  }
  CHECK(num_tiles < static_cast<std::int64_t>(kTileMask) - 1);
  State& s = *state_;
  ++s.job;
  for (std::size_t lane = s.lanes.size(); lane-- > 0;)  // the caller's own lane last
    s.lanes[lane].open(s.job, num_tiles, context, function);
  // Either a parking worker sees its ticket, or this thread sees `parked`.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (s.parked.load() > 0) s.wake();

  Member& self = s.members[0];
  const ThreadHandle thread = ThreadHandle::of_this_thread();
  if (self.tid.load(std::memory_order_relaxed) != thread.tid) self.attach(thread);
  self.is_on(current_cpu());
  self.at_work.store(true, std::memory_order_relaxed);
  std::int64_t own = 0;
  while (s.run_tile(0)) ++own;
  self.at_work.store(false, std::memory_order_relaxed);
  s.finished_by_workers += static_cast<std::uint64_t>(num_tiles - own);
  const auto all_done = [&] {
    std::uint64_t finished = 0;
    for (std::size_t i = 1; i < s.members.size(); ++i)
      finished += s.members[i].finished.load(std::memory_order_acquire);
    return finished == s.finished_by_workers;
  };
  // A worker that outlasts the spin has probably lost its core: give it this core, and likewise any other
  // worker that holds a tile without a core.
  while (!spin_until(all_done)) {
    s.help_stranded(all_done);
    std::this_thread::yield();
  }
}

}  // namespace pagoda
