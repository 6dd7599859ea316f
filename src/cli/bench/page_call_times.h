#pragma once
// Times of calls on a PageArena on this machine: medians of a few dozen. A server's calls may take longer,
// since its pages may still have to be found. Threads: any.
#include <cstdint>

#include "base/status.h"

namespace pagoda {

struct PageCallTimes {                                           // microseconds
  double map_us = 0, replace_us = 0, map8_us = 0, unmap_us = 0;  // map8: eight pages in one call
  double create_us = 0;                                          // memory for a page that has none
};

// Takes 64 pages of page_bytes for as long as it runs. Fails where the system refuses a call.
Result<PageCallTimes> time_page_calls(std::int64_t page_bytes);

}  // namespace pagoda
