#pragma once
// CacheHint: what a client says of the K/V that its request leaves in the prefix cache. A hint changes no
// answer. Plain data.
#include <cstdint>
#include <string>

namespace pagoda {

struct CacheHint {
  static constexpr std::int32_t kUsual = 50;  // priority

  // Names the conversation whose turn this is: its rows are erased together. Empty: none is named.
  std::string session;
  std::int32_t ttl_s = 0;          // the next turn comes within so many seconds, or never; 0: nobody knows
  std::int32_t priority = kUsual;  // 0 to 100: rows of more stay longer
  std::int32_t pin_s = 0;          // for so many seconds these rows go after all others
};

}  // namespace pagoda
