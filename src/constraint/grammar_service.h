#pragma once
// GrammarService: compiles grammars (grammar_backend.h) on its own threads and caches them.
//   compile() -> cached: done() at once
//             -> waiting, owners in turn -> compiling -> done(constraint or error)
//   * The backend bounds a grammar's work by its text; processor time is a wider bound. A compilation that
//     exceeds it fails, and another thread replaces the stuck one, while at most max_stuck are stuck. Equal
//     grammars that are requested concurrently are compiled once.
//   * Invariants: every compile() gets exactly one done(), unless the service ends first; the cache holds
//     at most cache_bytes. Units: bytes; processor time. Threads: any. Owner: the program; must outlive the
//     server.
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
    std::chrono::milliseconds max_compile_time{10'000};  // processor time
    std::chrono::milliseconds max_wall_time{120'000};
    std::int32_t max_at_once = 1;
    std::int32_t max_stuck = 4;
    std::size_t max_waiting = 256;  // grammars
    std::size_t max_waiting_of_owner = 128;
    std::int64_t cache_bytes = std::int64_t{28} << 20;        // including shared bytes
    std::int64_t max_grammar_bytes = std::int64_t{32} << 20;  // one compiled grammar
  };
  struct Counts {
    std::int64_t compiled = 0, failed = 0, cache_hits = 0, given_up = 0;
    std::int64_t cached_bytes = 0, cached = 0, waiting = 0, stuck = 0;
  };
  using Done = std::function<void(Result<CompiledConstraint>)>;

  GrammarService(std::shared_ptr<const GrammarBackend> backend, Options options);
  ~GrammarService();  // drops waiting grammars; does not wait for stuck threads
  GrammarService(const GrammarService&) = delete;

  // `done` may be called on any thread, possibly this one, and concurrently; it must hand over and return.
  // Errors: invalid_argument with the spec's param; resource_exhausted if too many grammars wait.
  void compile(std::uint64_t owner, GrammarSpec spec, Done done);

  Counts counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with its threads, which may outlive the service
};

}  // namespace pagoda
