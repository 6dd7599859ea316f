#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/check.h"

namespace pagoda {
namespace {

// The ticket is (job number, next tile) in one word, so that claiming a tile also proves that the job is
// still the current one: a worker that was off its core while the job ended fails its compare-exchange
// and never touches the job's context.
constexpr int kTileBits = 24;
constexpr std::uint64_t kTileMask = (std::uint64_t{1} << kTileBits) - 1;
constexpr std::uint64_t kClosed = kTileMask;  // tile field while the job's fields are being written
constexpr auto kSpin = std::chrono::microseconds(50);

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

  void work(int worker);
  void wake() {
    signal.fetch_add(1);
    signal.notify_all();
  }
};

void ThreadPool::State::work(int worker) {
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
      if (!ticket.compare_exchange_strong(current, current + 1, std::memory_order_acq_rel)) continue;
      run_tile(job, tile, worker);
      // Reported tile by tile: the next claim may already belong to the job after this one.
      done.fetch_add(1, std::memory_order_release);
    }
    const auto news = [&] {
      return (ticket.load(std::memory_order_acquire) >> kTileBits) != seen || stop.load();
    };
    if (!spin_until(news)) {
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

  std::int64_t own = 0;
  for (;;) {
    // Only tiles below num_tiles are claimed by workers, so this overshoots by one at most.
    const auto tile = static_cast<std::int64_t>(s.ticket.fetch_add(1, std::memory_order_acq_rel) & kTileMask);
    if (tile >= num_tiles) break;
    function(context, tile, 0);
    ++own;
  }
  const auto all_done = [&] { return s.done.load(std::memory_order_acquire) + own == num_tiles; };
  // Past the spin the worker has most likely lost its core: give ours to whoever holds it.
  while (!spin_until(all_done)) std::this_thread::yield();
}

}  // namespace pagoda
