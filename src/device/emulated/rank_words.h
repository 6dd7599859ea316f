#pragma once
// The words of kernels/rank_words.cuh on the emulated device: atomics of windows, which other threads and
// processes change meanwhile. A store waits for up to a fifth of a millisecond first, by the launch's order:
// so ranks come in any order. Threads: those of the block that runs.
#include <cstdint>

namespace pagoda::device::emulated {

std::uint32_t load_of_ranks(const std::uint32_t* word);
void store_for_ranks(std::uint32_t* word, std::uint32_t value);
std::uint64_t nanoseconds();
void rest();

}  // namespace pagoda::device::emulated
