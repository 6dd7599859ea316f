#pragma once
// ThreadPool: the compute threads of one process. Of n threads, thread t computes tiles t, t + n, ..., so
// that data left in a core's cache by one parallel_for is there for the next. Threads that finish early take
// tiles of the others, so a thread that loses its core to another process delays one tile, not half the work;
// a thread that waits for that tile gives up its core to it (base/thread_placement.h). Workers spin briefly
// between calls, then park: an idle server uses no CPU. The result of a tile must not depend on the worker
// that runs it.
// Threads: parallel_for is called by one thread at a time (the engine thread), never from a tile.
#include <cstdint>
#include <memory>

namespace pagoda {

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);  // includes the caller; starts num_threads - 1 workers
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls body(tile, worker) once for each tile in [0, num_tiles). worker is in [0, num_threads), and tiles
  // that run concurrently have different workers. Returns when all tiles are done.
  template <class Body>
  void parallel_for(std::int64_t num_tiles, const Body& body) {
    run(num_tiles, &body, [](const void* context, std::int64_t tile, int worker) {
      (*static_cast<const Body*>(context))(tile, worker);
    });
  }

 private:
  using Function = void (*)(const void* context, std::int64_t tile, int worker);
  void run(std::int64_t num_tiles, const void* context, Function function);

  struct Lane;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pagoda
