#pragma once
// GrammarService: compiles grammars on threads of its own and keeps what it has compiled. Not the compiler
// (grammar_backend.h), and not what walks a grammar (request/token_constraint.h).
//
//     compile() -> cached: done() at once
//               -> waiting, owners in turn -> compiling -> done(constraint or error)
//                                                `--over its time--> done(error); the thread is given up
//
// Up to max_at_once are compiled at the same time, each by a thread of its own. The backend bounds the work
// of one by its text alone. Behind that stands processor time, with a wide margin, for work that the backend
// did not count: the request fails, the backend is told to end, and another thread takes over until the old
// one is back; for at most max_stuck another takes over, and once all threads are stuck grammars are refused
// until one is back. Equal grammars that are asked for at the same time are compiled once. Invariants: every
// compile() gets exactly one done(), unless the service ends first; the cache holds at most cache_bytes, the
// least recently used leave first. Units: bytes; processor time. Threads: any. Owner: whoever puts the
// program together; it outlives the server.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "constraint/grammar_backend.h"
#include "constraint/grammar_spec.h"

namespace pagoda {

class GrammarService {
 public:
  struct Options {
    std::chrono::milliseconds max_compile_time{10'000};  // of the processor
    std::chrono::milliseconds max_wall_time{120'000};
    std::int32_t max_at_once = 1;
    std::int32_t max_stuck = 4;
    std::size_t max_waiting = 256;  // grammars
    std::size_t max_waiting_of_owner = 128;
    std::int64_t cache_bytes = std::int64_t{28} << 20;        // with what they share
    std::int64_t max_grammar_bytes = std::int64_t{32} << 20;  // of one, compiled
  };
  struct Counts {
    std::int64_t compiled = 0, failed = 0, cache_hits = 0, given_up = 0;
    std::int64_t cached_bytes = 0, cached = 0, waiting = 0, stuck = 0;
  };
  using Done = std::function<void(Result<CompiledConstraint>)>;

  GrammarService(std::shared_ptr<const GrammarBackend> backend, Options options);
  ~GrammarService();  // drops what waits; does not wait for threads that are stuck
  GrammarService(const GrammarService&) = delete;

  // `done` is called on any thread, maybe this one, several at a time: it hands over and returns. Errors:
  // invalid_argument with the spec's param; resource_exhausted: too many wait.
  void compile(std::uint64_t owner, GrammarSpec spec, Done done);

  Counts counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with its threads, which may outlive it
};

}  // namespace pagoda
