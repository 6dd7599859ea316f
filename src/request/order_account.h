#pragma once
// OrderAccount: the data that an admission order (scheduler/admission_order.h) keeps for one group. Stored in
// the group to avoid a lookup per group and step; written only by the order. Threads: the engine thread only.
#include <cstdint>

namespace pagoda {

struct OrderAccount {
  std::int64_t rank = 0;     // its rank while it waits
  std::int32_t tenant = -1;  // index of the tenant in the order; -1: none
  std::int32_t weight = 1;
  std::int32_t num_sequences = 1;
  bool running = false, begun = false;
  std::int64_t ahead = 0;              // service charged in advance
  std::int64_t num_output_tokens = 0;  // computed so far
};

}  // namespace pagoda
