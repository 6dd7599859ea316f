#pragma once
// Times of PageArena calls on this machine: medians of a few dozen calls. Calls in a server may take longer,
// because the system may still have to find pages. Threads: any.
#include <cstdint>

#include "base/status.h"

namespace pagoda {

struct PageCallTimes {                                           // microseconds
  double map_us = 0, replace_us = 0, map8_us = 0, unmap_us = 0;  // map8: eight pages in a call
  double create_us = 0;                                          // memory for a page that has none
};

// Takes 64 pages of page_bytes during the call. Fails if a system call fails.
Result<PageCallTimes> time_page_calls(std::int64_t page_bytes);

}  // namespace pagoda
