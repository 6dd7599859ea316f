// Rate limits: any order of calls at any times keeps the headers numbers, and grants no more than the limit.
// links: server
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "server/keys/rate_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pagoda::RateLimit limit;
  pagoda::TimeNs now = 0;
  std::int64_t rpm = 0, granted = 0;
  pagoda::TimeNs since = 0;
  while (size >= 10) {
    std::uint64_t number = 0;
    std::memcpy(&number, data + 1, 8);
    const auto amount = static_cast<std::int64_t>(number % 1'000'000'000'001);
    std::int64_t taken = 0;
    switch (data[0] % 5) {
      case 0:
        rpm = amount;
        limit.set(amount, amount / (1 + data[9]), now);
        since = now;
        granted = 0;
        break;
      case 1:
        now += amount;
        break;
      case 2:
        if (!limit.take_request(now)) ++granted;
        break;
      case 3:
        if (const auto refusal = limit.take_tokens(amount, amount / 2, now, taken); refusal && taken != 0)
          std::abort();
        break;
      case 4:
        limit.settle(amount, amount / (1 + data[9]), now);
        break;
    }
    const double minutes = pagoda::to_seconds(now - since) / 60;
    if (rpm > 0 && static_cast<double>(granted) > static_cast<double>(rpm) * (minutes + 1) + 1) std::abort();
    for (const auto& [name, value] : limit.headers(now))
      for (const char c : value)
        if (!((c >= '0' && c <= '9') || c == 'h' || c == 'm' || c == 's')) std::abort();
    data += 10;
    size -= 10;
  }
  return 0;
}
