#pragma once
// PAGODA_UNROLL before a loop over a register tile: unless all such loops are unrolled, the tile's array
// lives in memory instead of registers, at half the speed. PAGODA_SMALL_TILES: sanitizers instrument every
// load of the unrolled code, which then takes minutes to compile; their builds use small tiles. Results do
// not depend on the tile.
#if defined(__clang__)
#define PAGODA_UNROLL _Pragma("clang loop unroll(full)")
#define PAGODA_NO_UNROLL _Pragma("clang loop unroll(disable)")
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define PAGODA_SMALL_TILES 1
#endif
#else
#define PAGODA_UNROLL _Pragma("GCC unroll 16")
#define PAGODA_NO_UNROLL _Pragma("GCC unroll 1")
#endif
