#pragma once
// PAGODA_UNROLL before a loop over a register tile: unless all of them are unrolled, the tile's array lives
// in memory instead of registers, at half the speed.
#if defined(__clang__)
#define PAGODA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PAGODA_UNROLL _Pragma("GCC unroll 16")
#endif
