#pragma once
// AMX: the tile registers of Intel's server processors. Linux grants their use to a process that asks.
#include <string>

#include "kernels/backend.h"

namespace pagoda {

// Whether this process may multiply by AMX, in bfloat16 and int8. The first call asks, for all threads. The
// variable PAGODA_AMX=0 of the environment forbids it.
bool amx_allowed();

// The kernels of a level here, for people and fingerprints: "avx512 with AMX". With AMX bfloat16 products,
// and attention over keys and values in it, have other last bits.
std::string cpu_kernels_name(CpuLevel level);

}  // namespace pagoda
