#pragma once
// OrderAccount: what an admission order (scheduler/admission_order.h) notes of one group. Kept with the group
// so that nothing has to be looked up for each of them in each step; written by the order alone. Threads: the
// engine thread only.
#include <cstdint>

namespace pagoda {

struct OrderAccount {
  std::int64_t rank = 0;     // that it waits with
  std::int32_t tenant = -1;  // tenant of the order; -1: none
  std::int32_t weight = 1;
  std::int32_t num_sequences = 1;
  bool running = false, begun = false;
  std::int64_t ahead = 0;              // service that was charged before it was given
  std::int64_t num_output_tokens = 0;  // computed so far
};

}  // namespace pagoda
