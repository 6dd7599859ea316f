#pragma once
// AMX: the tile registers of Intel server processors. A Linux process must request permission to use them.
#include <string>

#include "kernels/backend.h"

namespace pagoda {

// True if this process may multiply with AMX, in bfloat16 and int8. The first call requests permission for
// all threads. The environment variable PAGODA_AMX=0 disables AMX.
bool amx_allowed();

// The kernels used here at `level`, for display and fingerprints: "avx512 with AMX". With AMX, bfloat16
// products and attention over bfloat16 keys and values differ in the last bits.
std::string cpu_kernels_name(CpuLevel level);

}  // namespace pagoda
