#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/thread_placement.h"

namespace pagoda {
namespace {

// The ticket is (job number, next tile) in one word, so that claiming a tile also proves that the job is
// still the current one: a worker that was off its core while the job ended fails its compare-exchange
// and never touches the job's context.
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

// Spins until `done()`, at most kSpin; false when the time is over.
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

// What the others know of one of the pool's threads. Advice only: nothing depends on its being up to date.
struct alignas(64) Member {
  std::atomic<int> tid{0}, clock{0};
  std::atomic<int> cpu{-1};
  std::atomic<bool> at_work{false};  // has a tile, or is about to take one

  void attach(ThreadHandle thread) {
    clock.store(thread.clock, std::memory_order_relaxed);
    tid.store(thread.tid, std::memory_order_relaxed);
  }
  ThreadHandle handle() const {
    return {.tid = tid.load(std::memory_order_relaxed), .clock = clock.load(std::memory_order_relaxed)};
  }
  // Holding a tile that others wait for, without a core.
  bool stranded() const { return at_work.load(std::memory_order_relaxed) && off_core(handle()); }
};

struct ThreadPool::State {
  alignas(64) std::atomic<std::uint64_t> ticket{kClosed};
  alignas(64) std::atomic<std::int64_t> done{0};  // tiles finished by workers, not by the caller
  alignas(64) std::atomic<std::int64_t> num_tiles{0};
  std::atomic<const void*> context{nullptr};
  std::atomic<Function> function{nullptr};
  alignas(64) std::atomic<int> parked{0};
  std::atomic<int> signal{0};  // bumped to wake parked workers
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::vector<Member> members;  // the caller first, then the workers
  // More threads than cores have to share them anyway.
  bool place = false;

  void work(int worker);
  bool shares_core(int worker);
  template <class Done>
  void help_stranded(const Done& done);
  void wake() {
    signal.fetch_add(1);
    signal.notify_all();
  }
};

// Whether an earlier thread of the pool computes on the core of this one.
bool ThreadPool::State::shares_core(int worker) {
  const int cpu = current_cpu();
  Member& self = members[static_cast<std::size_t>(worker)];
  if (self.cpu.load(std::memory_order_relaxed) != cpu) self.cpu.store(cpu, std::memory_order_relaxed);
  for (int other = 0; other < worker; ++other) {
    if (members[static_cast<std::size_t>(other)].cpu.load(std::memory_order_relaxed) == cpu) return cpu >= 0;
  }
  return false;
}

// The caller has nothing left to do, but a worker that was put off its core holds a tile: it gets this core.
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
  Member& self = members[static_cast<std::size_t>(worker)];
  self.attach(ThreadHandle::of_this_thread());
  auto may_move = std::chrono::steady_clock::time_point{};
  std::uint64_t seen = ticket.load();
  for (;;) {
    // Take tiles of the current job until none is left.
    for (;;) {
      std::uint64_t current = ticket.load(std::memory_order_acquire);
      const auto tile = static_cast<std::int64_t>(current & kTileMask);
      seen = current >> kTileBits;
      // These may belong to a later job; then the ticket has changed and the exchange fails.
      const std::int64_t count = num_tiles.load(std::memory_order_acquire);
      const void* const job = context.load(std::memory_order_acquire);
      const Function run_tile = function.load(std::memory_order_acquire);
      if ((current & kTileMask) == kClosed || tile >= count) break;
      if (place && shares_core(worker)) {
        // Elsewhere it may have to wait for a neighbour, but here the two wait for each other.
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
      if (!ticket.compare_exchange_strong(current, current + 1, std::memory_order_acq_rel)) continue;
      run_tile(job, tile, worker);
      // Reported tile by tile: the next claim may already belong to the job after this one.
      done.fetch_add(1, std::memory_order_release);
    }
    self.at_work.store(false, std::memory_order_relaxed);
    const auto news = [&] {
      return (ticket.load(std::memory_order_acquire) >> kTileBits) != seen || stop.load();
    };
    if (!spin_until(news)) {
      // The same the other way round: this core is free for a caller that has lost its own.
      if (place && members[0].stranded()) move_to_this_core(members[0].handle());
      self.cpu.store(-1, std::memory_order_relaxed);
      const int before = signal.load();
      parked.fetch_add(1);
      // Either this sees the new ticket, or the caller sees `parked` and changes `signal`.
      if ((ticket.load() >> kTileBits) == seen && !stop.load()) signal.wait(before);
      parked.fetch_sub(1);
    }
    if (stop.load()) return;
  }
}

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  CHECK(num_threads >= 1);
  state_->members = std::vector<Member>(static_cast<std::size_t>(num_threads));
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

void ThreadPool::run(std::int64_t num_tiles, const void* context, Function function) {
  if (num_tiles <= 1 || state_->threads.empty()) {
    for (std::int64_t tile = 0; tile < num_tiles; ++tile) function(context, tile, 0);
    return;
  }
  CHECK(num_tiles < static_cast<std::int64_t>(kTileMask) - 1);
  State& s = *state_;
  const std::uint64_t job = (s.ticket.load(std::memory_order_relaxed) >> kTileBits) + 1;
  s.ticket.store((job << kTileBits) | kClosed);
  s.done.store(0, std::memory_order_relaxed);
  s.num_tiles.store(num_tiles, std::memory_order_release);
  s.context.store(context, std::memory_order_release);
  s.function.store(function, std::memory_order_release);
  s.ticket.store((job + 1) << kTileBits);
  if (s.parked.load() > 0) s.wake();

  Member& self = s.members[0];
  const ThreadHandle thread = ThreadHandle::of_this_thread();
  if (self.tid.load(std::memory_order_relaxed) != thread.tid) self.attach(thread);
  self.cpu.store(current_cpu(), std::memory_order_relaxed);
  self.at_work.store(true, std::memory_order_relaxed);
  std::int64_t own = 0;
  for (;;) {
    // Only tiles below num_tiles are claimed by workers, so this overshoots by one at most.
    const auto tile = static_cast<std::int64_t>(s.ticket.fetch_add(1, std::memory_order_acq_rel) & kTileMask);
    if (tile >= num_tiles) break;
    function(context, tile, 0);
    ++own;
  }
  const auto all_done = [&] { return s.done.load(std::memory_order_acquire) + own == num_tiles; };
  self.at_work.store(false, std::memory_order_relaxed);
  // Past the spin the worker has most likely lost its core: it gets ours, and so does whoever else holds one.
  while (!spin_until(all_done)) {
    s.help_stranded(all_done);
    std::this_thread::yield();
  }
}

}  // namespace pagoda
