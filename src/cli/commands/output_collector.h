#pragma once
// OutputCollector: takes the engine's outputs of many offline requests and hands them, in order of
// arrival, to the one thread that waits for them. Bounded by what was submitted.
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
    TimeNs time = 0;  // when the engine gave it
  };

  // A sink that pushes into this collector; it may outlive it, and then nobody takes what comes.
  std::shared_ptr<OutputSink> make_sink();

  // Waits until something is there and takes all of it.
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
