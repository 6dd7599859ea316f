#pragma once
// The PTX instructions of kernels/rank_words.cuh on the emulated device: atomics on windows, which other
// threads and processes change concurrently. A store first waits for up to a fifth of a millisecond,
// depending on the launch's order, so that ranks arrive in any order. Threads: those of the running block.
#include <cstdint>

namespace pagoda::device::emulated {

std::uint32_t load_of_ranks(const std::uint32_t* word);
void store_for_ranks(std::uint32_t* word, std::uint32_t value);
std::uint64_t nanoseconds();
void rest();

}  // namespace pagoda::device::emulated
