#include "cli/bench/page_call_times.h"

#include <algorithm>
#include <vector>

#include "base/assign_or_return.h"
#include "base/clock.h"
#include "tensor/page_arena.h"

namespace pagoda {
namespace {

constexpr std::int64_t kPages = 64;

}  // namespace

Result<PageCallTimes> time_page_calls(std::int64_t page_bytes) {
  PAGODA_ASSIGN_OR_RETURN(
      auto arena,
      PageArena::create({.page_bytes = page_bytes, .num_pages = kPages, .num_blocks = 4 * kPages}));
  const SteadyClock clock;
  Status status;
  const auto each = [&](std::int64_t count, auto call) {
    std::vector<double> times;
    for (std::int64_t i = 0; i < count && status.ok(); ++i) {
      const TimeNs start = clock.now();
      status = call(i);
      times.push_back(to_seconds(clock.now() - start) * 1e6);
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
  };
  status = arena.create_pages(0, kPages);
  PageCallTimes out;
  out.create_us = each(kPages, [&](std::int64_t i) {
    return arena.populate(i, 1) ? ok_status() : resource_exhausted("no memory for KV pages");
  });
  // Uses every other page, so that the system cannot merge mappings.
  out.map_us = each(kPages / 2, [&](std::int64_t i) { return arena.map(2 * i, kPages - 1 - 2 * i, 1); });
  out.replace_us = each(kPages / 2, [&](std::int64_t i) { return arena.map(2 * i, 2 * i, 1); });
  out.map8_us = each(kPages / 8, [&](std::int64_t i) { return arena.map(kPages + 8 * i, 8 * i, 8); });
  out.unmap_us = each(kPages / 2, [&](std::int64_t i) { return arena.unmap(2 * i, 1); });
  if (!status.ok()) return status;
  return out;
}

}  // namespace pagoda
