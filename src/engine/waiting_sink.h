#pragma once
// A request's outputs for a thread that waits for the first or the last of them. Tests only.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <semaphore>
#include <vector>

#include "engine/client.h"

namespace pagoda {

class WaitingSink final : public OutputSink {
 public:
  void on_output(RequestOutput output) override {
    for (const SequenceDelta& delta : output.deltas)
      tokens.insert(tokens.end(), delta.token_ids.begin(), delta.token_ids.end());
    num_cached_tokens = output.num_cached_tokens;
    if (!tokens.empty() && !begun_.exchange(true)) first_.release();
    if (!output.finished) return;
    error = output.error;
    EXPECT_FALSE(done_.exchange(true)) << "finished twice";
    last_.release();
  }
  // Both give up after a time that no test needs.
  bool wait_first() { return first_.try_acquire_for(kLimit); }
  bool wait() { return last_.try_acquire_for(kLimit); }
  bool done() const { return done_.load(); }

  // Read after wait().
  std::vector<TokenId> tokens;
  std::int32_t num_cached_tokens = 0;
  Status error;

 private:
  static constexpr std::chrono::seconds kLimit{20};
  std::atomic<bool> begun_{false}, done_{false};
  std::binary_semaphore first_{0}, last_{0};
};

}  // namespace pagoda
