#pragma once
// RateLimit: limits a key's requests and tokens per minute: two token buckets, each with the capacity of one
// minute. A request takes the tokens that it may need, and unused ones are returned; a request that needs
// more than the capacity waits for a full bucket. Fair shares of a busy server are separate
// (scheduler/admission_order.h). Source: token bucket; headers as OpenAI's.
// Invariants: over any m minutes, at most m+1 minutes' worth is granted. Time is passed in.
// Threads: any.
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace pagoda {

class RateLimit {
 public:
  // 0: no limit. Tokens already taken stay taken.
  void set(std::int64_t requests_per_minute, std::int64_t tokens_per_minute, TimeNs now);

  struct Refusal {
    std::string message;
    double wait_s = 0;  // until it would be granted; 0: never
  };
  // Returns nullopt if granted.
  std::optional<Refusal> take_request(TimeNs now);
  // `prompt` of the `wanted` tokens are certain to be used. `taken` is the amount to pass to settle().
  std::optional<Refusal> take_tokens(std::int64_t wanted, std::int64_t prompt, TimeNs now,
                                     std::int64_t& taken);
  void settle(std::int64_t taken, std::int64_t used, TimeNs now);

  // The x-ratelimit-* headers of the limits that are set.
  std::vector<std::pair<std::string, std::string>> headers(TimeNs now) const;

 private:
  struct Bucket {
    std::int64_t per_minute = 0;
    double level = 0;
    TimeNs at = 0;

    double now(TimeNs time) const;
    void fill(TimeNs time);
    double wait(double amount, TimeNs time) const;  // seconds until it holds `amount`
  };
  static void change(Bucket& bucket, std::int64_t per_minute, TimeNs now);

  mutable std::mutex mutex_;
  Bucket requests_, tokens_;
};

// "1m30s", "250ms": as in OpenAI's headers; rounded up.
std::string duration_text(double seconds);

}  // namespace pagoda
