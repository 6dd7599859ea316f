#pragma once
// BackgroundCalls: calls that continue without their client. One thread feeds engine outputs to their
// answers, which store the result (api/answer_store.h). Bounded in number; calls still running when the
// server ends are aborted. Threads: any.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "api/answer_store.h"
#include "base/status.h"
#include "server/generation.h"

namespace pagoda {

class BackgroundCalls final : public DetachedCalls {
 public:
  BackgroundCalls(EngineClient& engine, std::size_t max_calls);  // borrows
  ~BackgroundCalls() override;

  // `ended` is called on the background thread when the call ends, regardless of the outcome.
  Status start(ApiGeneration call, MemoryReservation memory, std::uint64_t first_id, TimeNs now,
               TimeNs deadline, std::function<void(const Generation&)> ended);
  bool cancel(std::string_view id) override;

 private:
  struct Call {
    std::shared_ptr<Generation> generation;
    std::function<void(const Generation&)> ended;
    bool cancelled = false;
    bool woken = true;
  };
  void wake(const std::string& id);
  void run();

  EngineClient& engine_;
  const std::size_t max_calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Call, std::less<>> calls_;
  std::size_t num_starting_ = 0;  // counted against max_calls_ and not yet in calls_
  std::deque<std::string> woken_;
  bool stopping_ = false;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace pagoda
