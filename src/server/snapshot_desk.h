#pragma once
// SnapshotDesk: provides snapshots of the engine. Callers that ask while a snapshot is being taken share the
// next one, so the engine takes at most one per step, regardless of the number of callers. No thread waits.
// Invariant: each ask() is answered once, with a snapshot taken after it. Threads: any; answers come on the
// engine thread.
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/client.h"

namespace pagoda {

class SnapshotDesk {
 public:
  using Snapshot = Result<std::shared_ptr<const EngineSnapshot>>;
  using Done = std::function<void(Snapshot)>;

  explicit SnapshotDesk(EngineClient& engine) : desk_(std::make_shared<Desk>(engine)) {}

  void ask(Done done) {
    {
      std::lock_guard lock(desk_->mutex);
      desk_->waiting.push_back(std::move(done));
      if (!desk_->asked.empty()) return;
      desk_->asked.swap(desk_->waiting);
    }
    take(desk_);
  }

 private:
  struct Desk {
    explicit Desk(EngineClient& client) : engine(client) {}
    EngineClient& engine;
    std::mutex mutex;
    std::vector<Done> asked, waiting;  // for the current snapshot, and for the next
  };

  // `desk` is shared because the engine may answer after the server's destruction.
  static void take(const std::shared_ptr<Desk>& desk) {
    desk->engine.snapshot([desk](const Snapshot& snapshot) {
      std::vector<Done> asked;
      bool more = false;
      {
        std::lock_guard lock(desk->mutex);
        asked.swap(desk->asked);
        desk->asked.swap(desk->waiting);
        more = !desk->asked.empty();
      }
      for (const Done& done : asked) done(snapshot);
      if (more) take(desk);
    });
  }

  std::shared_ptr<Desk> desk_;
};

}  // namespace pagoda
