#pragma once
// RateLimit: how many requests and tokens a minute a key may have: two buckets that fill evenly, each holding
// one minute's worth. Tokens are taken by what a request may need, and what it did not use is given back; one
// that wants more than a whole bucket waits for a full one. Not the fair share of a contended machine
// (scheduler/admission_order.h). Source: token bucket, headers as OpenAI's.
// Invariants: over any minutes m, at most m+1 minutes' worth is granted. Time is passed in.
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
  // 0: no limit. What has been used stays used.
  void set(std::int64_t requests_per_minute, std::int64_t tokens_per_minute, TimeNs now);

  struct Refusal {
    std::string message;
    double wait_s = 0;  // until it would be granted; 0: never
  };
  // nullopt: granted.
  std::optional<Refusal> take_request(TimeNs now);
  // `prompt` of the `wanted` tokens are certain. `taken` gets what settle() is to be told.
  std::optional<Refusal> take_tokens(std::int64_t wanted, std::int64_t prompt, TimeNs now,
                                     std::int64_t& taken);
  void settle(std::int64_t taken, std::int64_t used, TimeNs now);

  // x-ratelimit-*, for the limits that there are.
  std::vector<std::pair<std::string, std::string>> headers(TimeNs now) const;

 private:
  struct Bucket {
    std::int64_t per_minute = 0;
    double level = 0;
    TimeNs at = 0;

    double now(TimeNs time) const;
    void fill(TimeNs time);
    double wait(double amount, TimeNs time) const;  // seconds until it holds that much
  };
  static void change(Bucket& bucket, std::int64_t per_minute, TimeNs now);

  mutable std::mutex mutex_;
  Bucket requests_, tokens_;
};

// "1m30s", "250ms": as OpenAI's headers write it; rounded up.
std::string duration_text(double seconds);

}  // namespace pagoda
