#pragma once
// Helpers shared by AMX products and AMX attention. Included only by files compiled for AMX.
#include <atomic>
#include <cstdint>

namespace pagoda::cpu {
namespace {

constexpr std::int64_t kTileBytes = 1024;

// Tile instructions read memory written earlier, a dependency that GCC's intrinsics do not express.
PAGODA_INLINE void write_before_tiles() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// The operand of ldtilecfg.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

 protected:
  void set(int tile, std::int64_t height, std::uint16_t width = 64) {
    row_bytes[tile] = height > 0 ? width : 0;
    rows[tile] = static_cast<std::uint8_t>(height);
  }
};

}  // namespace
}  // namespace pagoda::cpu
