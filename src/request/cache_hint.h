#pragma once
// CacheHint: a client's hint about the K/V that its request leaves in the prefix cache. A hint never changes
// an answer. Plain data.
#include <cstdint>
#include <string>

namespace pagoda {

struct CacheHint {
  static constexpr std::int32_t kUsual = 50;  // the default priority

  // Name of the conversation that this request belongs to; the rows of a session are erased together. Empty:
  // no session.
  std::string session;
  std::int32_t ttl_s = 0;          // the next turn comes within this many seconds, or never; 0: unknown
  std::int32_t priority = kUsual;  // 0 to 100: rows of higher priority are kept longer
  std::int32_t pin_s = 0;          // for this many seconds, these rows are evicted after all unpinned rows
};

}  // namespace pagoda
