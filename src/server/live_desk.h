#pragma once
// LiveDesk: the live view of the engine for a few concurrent readers. While there are readers, one thread
// asks the engine for its state at most ten times a second, makes one frame for all readers
// (page/live_frames.h) and wakes them. If any reader wants every step, the engine delivers a state per step,
// and all readers get a frame per step. A slow reader loses deltas and gets a snapshot instead; nothing
// queues up. Invariants: a reader's text is hello, then snapshots, each followed by deltas without a gap;
// unread text is bounded. Threads: any; readers are woken on the desk's thread. Owner: the server; outlives
// every take().
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/client.h"

namespace pagoda {

enum class LivePace { tenths, every_step };  // a frame every tenth of a second, or every step

class LiveReader {
 public:
  // Moves pending frames to `out`, as server-sent events. Returns false if the stream has ended.
  bool take(std::string& out);

 private:
  friend class LiveDesk;
  std::mutex mutex_;
  std::string pending_;
  LivePace pace_ = LivePace::tenths;
  bool wants_snapshot_ = true, ended_ = false, news_ = false;
  std::function<void()> ring_;
};

class LiveDesk {
 public:
  LiveDesk(EngineClient& engine, std::size_t max_readers, std::size_t max_pending);
  ~LiveDesk();

  // resource_exhausted: too many readers. Dropping the pointer unsubscribes.
  Result<std::shared_ptr<LiveReader>> subscribe(LivePace pace, std::function<void()> ring);

 private:
  using State = std::shared_ptr<const EngineSnapshot>;
  struct Answer {  // shared with the engine, which may answer after the desk's destruction
    std::mutex mutex;
    std::condition_variable arrived;
    std::optional<Result<EngineClient::LiveStates>> states;
  };

  void run();
  std::vector<std::shared_ptr<LiveReader>> readers();
  void ask(std::int64_t seen);
  std::optional<Result<EngineClient::LiveStates>> wait_a_while();
  void choose_pace();
  void publish(const State& before, const State& after);
  void ring();
  void end_all();

  EngineClient& engine_;
  const std::size_t max_readers_, max_pending_;
  const std::string boot_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::weak_ptr<LiveReader>> readers_;
  bool stopping_ = false;
  const std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();
  LivePace pace_ = LivePace::tenths;  // as requested from the engine
  bool every_step_ = false;           // the last state was delivered at pace every_step
  std::int64_t number_ = 0;           // frames so far
  std::thread thread_;                // starts with the first reader
};

}  // namespace pagoda
