#pragma once
// The registers of a block, of which hardware has a limited number: a launch with more threads than the
// registers suffice for is refused. nvcc determines the registers per thread of a kernel; the build reads
// them from cuda/resources.txt. Source: CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability". Threads: any.
#include <cstdint>
#include <string_view>

namespace pagoda::device::emulated {

// Maximum registers per thread of this kernel on any device; 0 if the kernel is not in the table.
std::uint32_t registers_of(std::string_view kernel);

// True if a block of this many threads, whole warps, has enough registers.
bool has_registers(std::string_view kernel, std::uint64_t threads);

}  // namespace pagoda::device::emulated
