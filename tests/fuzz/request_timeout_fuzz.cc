// Headers that a client steers the server with: deadlines and keys. Whatever they say, a deadline is none, an
// error that names its header, or a time within bounds; and a key is a part of what was sent.
// links: server
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/deadline.h"
#include "server/keys/key_store.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = text.find('\n');
  const std::string_view first = text.substr(0, cut);
  const std::string_view second = cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);
  const auto timeout = pagoda::timeout_of_headers(first, second);
  if (!timeout) {
    if (timeout.error().param().empty()) std::abort();
  } else if (*timeout) {
    if (!(std::isfinite(**timeout) && **timeout > 0)) std::abort();
    constexpr pagoda::TimeNs kNow = 1'000'000'000'000;
    const pagoda::TimeNs deadline = pagoda::deadline_after(kNow, *timeout, **timeout / 2);
    if (deadline < kNow || pagoda::to_seconds(deadline - kNow) > pagoda::kMaxTimeoutS + 1) std::abort();
  }
  const std::string_view key = pagoda::key_of(first, second);
  if (!key.empty() && (key.data() < text.data() || key.data() + key.size() > text.data() + size))
    std::abort();
  return 0;
}
