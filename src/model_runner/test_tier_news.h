#pragma once
// For tests of TierEngine: a caller that sleeps until it is woken for news. Must outlive the engine that it
// watches.
// Threads: any.
#include <condition_variable>
#include <mutex>
#include <utility>

#include "model_runner/tier_engine.h"

namespace pagoda::testing {

class NewsWaiter {
 public:
  void watch(TierEngine& engine) {
    engine.on_news([this] {
      const std::lock_guard lock(mutex_);
      woken_ = true;
      ++num_wakes_;
      wake_.notify_all();
    });
  }
  // Collects news until there are `num_answers` answers.
  TierNews wait(TierEngine& engine, std::size_t num_answers) {
    TierNews all;
    while (all.done.size() < num_answers) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return woken_; });
        woken_ = false;
      }
      TierNews news;
      engine.take_news(news);
      all.done.insert(all.done.end(), news.done.begin(), news.done.end());
      all.gone.insert(all.gone.end(), news.gone.begin(), news.gone.end());
      all.found.insert(all.found.end(), news.found.begin(), news.found.end());
    }
    return all;
  }
  bool is_woken() {
    const std::lock_guard lock(mutex_);
    return woken_;
  }
  // Returns the number of wakes since the last call.
  int take_wakes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(num_wakes_, 0);
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
  int num_wakes_ = 0;
};

}  // namespace pagoda::testing
