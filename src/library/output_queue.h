#pragma once
// OutputQueue: where a program's requests go in and their outputs come out, in the order in which they come.
//
//     submit() -> server/generation.h ... wake() -> bell -> next(): pump, and what is fresh as a record
//
// Invariants: a request ends with one record that is finished, unless it was aborted; nothing runs in the
// engine for a queue that is gone. Bounded by what the engine has let in. Threads: any; a request is pumped
// by one at a time, outside the lock, since the engine's thread rings under its own. Borrows engine and API.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "api/api_context.h"
#include "api/openai/parsed_call.h"
#include "api/protocol.h"
#include "base/clock.h"
#include "engine/client.h"
#include "library/output_record.h"
#include "server/generation.h"

namespace pagoda {

class OutputQueue {
 public:
  OutputQueue(EngineClient& engine, const ApiContext& api) : engine_(engine), api_(api) {}
  ~OutputQueue();  // aborts what runs
  OutputQueue(const OutputQueue&) = delete;

  // `id`: of the request; unique in the engine. Compiles the call's grammar first, if it has one.
  Status submit(ParsedCall call, std::uint64_t id);
  // A protocol's own call, of which one record comes, with its body. `id`: of its first request; those of the
  // others follow. It does not stream.
  Status submit(ApiGeneration call, std::uint64_t id);
  bool abort(std::uint64_t id);  // false: it has ended

  enum class Nothing { timeout, idle, dead };
  struct Taken {
    std::unique_ptr<OutputRecord> record;  // null: `why`
    Nothing why = Nothing::timeout;
  };
  // Absent timeout: until something comes or nothing runs.
  Taken next(std::optional<std::chrono::milliseconds> timeout);

 private:
  struct Call {
    std::unique_ptr<Generation> generation;
    RecordWriter* writer = nullptr;  // the generation's; null: its answer is a body
    std::string body = {};
    bool busy = false;     // somebody pumps it
    bool rung = false;     // meanwhile something has come
    bool aborted = false;  // meanwhile it was aborted
  };

  void ring(std::uint64_t id);
  Status start(ApiGeneration call, RecordWriter* writer, std::uint64_t id);
  Status compile_grammar(ApiGeneration& call, std::uint64_t id);
  std::unique_ptr<OutputRecord> look_at(std::uint64_t id, std::unique_lock<std::mutex>& lock);
  // After somebody has worked at it without the lock. Drops it where it has ended.
  void let_go(std::uint64_t id, bool ended, std::unique_lock<std::mutex>& lock);

  EngineClient& engine_;
  const ApiContext& api_;
  SteadyClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::uint64_t> bell_;
  std::unordered_map<std::uint64_t, Call> calls_;
};

}  // namespace pagoda
