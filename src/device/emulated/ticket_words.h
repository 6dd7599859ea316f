#pragma once
// The PTX of kernels/tickets.cuh on the emulated device: who takes a counter's last ticket knows what the
// blocks that took the others had done before their last barrier. Threads: those of the block that runs.
#include <cstdint>

namespace pagoda::device::emulated {

bool take_ticket(std::uint32_t* counter, std::uint32_t count);

}  // namespace pagoda::device::emulated
