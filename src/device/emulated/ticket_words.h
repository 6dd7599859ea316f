#pragma once
// The PTX instructions of kernels/tickets.cuh on the emulated device: the thread that takes a counter's last
// ticket knows what the blocks with the other tickets did before their last barrier. Threads: those of the
// running block.
#include <cstdint>

namespace pagoda::device::emulated {

bool take_ticket(std::uint32_t* counter, std::uint32_t count);

}  // namespace pagoda::device::emulated
