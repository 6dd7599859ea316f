#include "engine/stats_log.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {

std::optional<std::string> StatsLog::line(TimeNs now, const Take& take) {
  if (last_ != 0 && now - last_ < kInterval) return std::nullopt;
  const EngineSnapshot snapshot = take();
  const EngineTotals before = std::exchange(totals_, snapshot.totals);
  const TimeNs since = now - std::exchange(last_, now);
  if (since == now || since >= 2 * kInterval) return std::nullopt;  // first step, or first after idling
  const EngineTotals& totals = snapshot.totals;
  const auto rate = [&](std::int64_t count) {
    return fixed(static_cast<double>(count) / to_seconds(since), 1);
  };
  const auto share = [](std::int64_t part, std::int64_t whole) {
    return fixed(whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0, 1);
  };
  const auto running = std::ranges::count(snapshot.requests, GroupState::running, &RequestSnapshot::state);
  const auto waiting = std::ranges::count_if(snapshot.requests, [](const RequestSnapshot& request) {
    return request.state == GroupState::waiting || request.state == GroupState::arriving;
  });
  return concat(
      "Avg prompt throughput: ", rate(totals.prompt_tokens - before.prompt_tokens),
      " tokens/s, Avg generation throughput: ", rate(totals.generation_tokens - before.generation_tokens),
      " tokens/s, Running: ", running, " reqs, Waiting: ", waiting,
      " reqs, KV cache usage: ", share(snapshot.num_blocks - snapshot.num_free_blocks, snapshot.num_blocks),
      "%, Prefix cache hit rate: ",
      share(totals.prefix_cache_hits - before.prefix_cache_hits,
            totals.prefix_cache_queries - before.prefix_cache_queries),
      "%");
}

}  // namespace pagoda
