#pragma once
// The selective scan of one instruction set: a tile of channels, through rows of one sequence. Contract:
// kernels/selective_scan.h.
#include <cstdint>

#include "kernels/backend.h"

namespace pagoda::cpu {

// Pointers are to what the sequence's first row has, of the tile's first channel.
struct SelectiveScanTile {
  std::int32_t state_size = 0;
  std::int64_t channels = 0;                     // at most kScanTile
  const float *rate = nullptr, *skip = nullptr;  // rate: [state_size, channels]
  const float* step = nullptr;
  std::int64_t step_stride = 0;
  const float* value = nullptr;
  std::int64_t value_stride = 0;
  const float *key = nullptr, *query = nullptr;
  std::int64_t key_stride = 0;
  float* output = nullptr;
  std::int64_t output_stride = 0;
  float* state = nullptr;  // [state_size, channels]
};

// Rows [first, last) of the sequence, in place on the state.
using SelectiveScanRows = void (*)(const SelectiveScanTile& tile, std::int32_t first, std::int32_t last);

SelectiveScanRows selective_scan_rows_avx512();
SelectiveScanRows selective_scan_rows_avx2();
SelectiveScanRows selective_scan_rows_portable();
SelectiveScanRows selective_scan_rows(CpuLevel level);

}  // namespace pagoda::cpu
