#pragma once
// KeyUsage: usage of a key since startup: tokens, requests, errors. A call is counted when it ends, even if
// the client disconnected. A prompt counts once the engine has delivered output for it; an answer counts the
// tokens delivered. Shown by GET /admin/usage and /metrics. Threads: any.
#include <cstdint>
#include <string>

#include "base/metrics.h"

namespace pagoda {

struct UsedTokens {
  std::int64_t prompt = 0, cached = 0, completion = 0;
};

class KeyUsage {
 public:
  // `name` must be valid as a label.
  KeyUsage(MetricsRegistry& registry, const std::string& name);

  void add_tokens(const UsedTokens& tokens);
  void add_request(bool failed);

  struct Totals {
    UsedTokens tokens;
    std::int64_t requests = 0, errors = 0;
  };
  Totals totals() const;

 private:
  // Metrics counters are doubles, exact up to 2^53.
  Counter& prompt_;
  Counter& cached_;
  Counter& completion_;
  Counter& requests_;
  Counter& errors_;
};

}  // namespace pagoda
