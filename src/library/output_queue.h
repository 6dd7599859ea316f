#pragma once
// OutputQueue: takes a program's requests and returns their outputs in order of arrival.
//
//     submit() -> server/generation.h ... wake() -> bell -> next(): pump, new output as a record
//
// Invariants: a request ends with one finished record, unless it was aborted; after the queue's destruction,
// the engine runs nothing for it. Bounded by the engine's admission. Threads: any; a request is pumped by one
// thread at a time, outside the lock, since the engine thread calls ring() under its own lock. Borrows engine
// and API.
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
  ~OutputQueue();  // aborts running requests
  OutputQueue(const OutputQueue&) = delete;

  // `id`: the request's id, unique in the engine. Compiles the call's grammar first, if any.
  Status submit(ParsedCall call, std::uint64_t id);
  // Submits a protocol's call, which yields one record with the answer's body. `id`: id of its first request;
  // the others' ids follow. Must not stream.
  Status submit(ApiGeneration call, std::uint64_t id);
  bool abort(std::uint64_t id);  // false if it has ended

  enum class Nothing { timeout, idle, dead };
  struct Taken {
    std::unique_ptr<OutputRecord> record;  // null: see `why`
    Nothing why = Nothing::timeout;
  };
  // Without a timeout, waits until an output arrives or no request is running.
  Taken next(std::optional<std::chrono::milliseconds> timeout);

 private:
  struct Call {
    std::unique_ptr<Generation> generation;
    RecordWriter* writer = nullptr;  // owned by generation; null: the answer is a body
    std::string body = {};
    bool busy = false;     // a thread pumps the call
    bool rung = false;     // output arrived while busy
    bool aborted = false;  // aborted while busy
  };

  void ring(std::uint64_t id);
  Status start(ApiGeneration call, RecordWriter* writer, std::uint64_t id);
  Status compile_grammar(ApiGeneration& call, std::uint64_t id);
  std::unique_ptr<OutputRecord> look_at(std::uint64_t id, std::unique_lock<std::mutex>& lock);
  // Called after work done without the lock. Erases the call if it has ended or was aborted.
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
