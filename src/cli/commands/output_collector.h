#pragma once
// OutputCollector: collects the engine's outputs of many offline requests and passes them, in order of
// arrival, to a single waiting thread. Its size is bounded by what was submitted.
// Threads: the engine thread pushes, one thread takes.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "engine/client.h"

namespace pagoda {

class OutputCollector {
 public:
  struct Item {
    RequestOutput output;
    TimeNs time = 0;  // when the engine produced it
  };

  // Returns a sink that pushes into this collector. The sink may outlive the collector; its outputs are then
  // discarded.
  std::shared_ptr<OutputSink> make_sink();

  // Waits until there is at least one item and takes all items.
  std::vector<Item> take();

 private:
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable ready;
    std::vector<Item> items;
  };
  class Sink;
  std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
};

}  // namespace pagoda
