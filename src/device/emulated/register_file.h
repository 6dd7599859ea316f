#pragma once
// The registers of a block, of which hardware has a limited number: a launch of more threads than they are
// enough for is refused. How many a thread of a kernel has is nvcc's choice: the build reads them from
// cuda/resources.txt. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
// Threads: any.
#include <cstdint>
#include <string_view>

namespace pagoda::device::emulated {

// The most that a thread of this kernel has on any device; 0: a kernel that is not in the table.
std::uint32_t registers_of(std::string_view kernel);

// Whether a block of so many threads, whole warps, has them.
bool has_registers(std::string_view kernel, std::uint64_t threads);

}  // namespace pagoda::device::emulated
