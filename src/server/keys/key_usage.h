#pragma once
// KeyUsage: what the holders of a key have used since the start: tokens, requests, errors. A call counts when
// it is over, hung up on or not: a prompt once the engine has brought something for it, an answer's tokens as
// far as the engine has brought them. Counted once and shown twice: GET /admin/usage and /metrics.
// Threads: any.
#include <cstdint>
#include <string>

#include "base/metrics.h"

namespace pagoda {

struct UsedTokens {
  std::int64_t prompt = 0, cached = 0, completion = 0;
};

class KeyUsage {
 public:
  // `name` is fit to be a label.
  KeyUsage(MetricsRegistry& registry, const std::string& name);

  void add_tokens(const UsedTokens& tokens);
  void add_request(bool failed);

  struct Totals {
    UsedTokens tokens;
    std::int64_t requests = 0, errors = 0;
  };
  Totals totals() const;

 private:
  // A counter of metrics is a double, and exact to 2^53.
  Counter& prompt_;
  Counter& cached_;
  Counter& completion_;
  Counter& requests_;
  Counter& errors_;
};

}  // namespace pagoda
