#pragma once
// Widens narrow weights for 8-bit products to bytes, for more rows than can be served by widening in
// registers.
#include "kernels/cpu/linear_blocks_inl.h"

namespace pagoda::cpu {
namespace {

// Writes the scales and minima of a block in its wide form.
template <PackedFormat kFormat>
PAGODA_INLINE void widen_steps(const std::byte* block, std::byte* out) {
  constexpr int kPairs = BlockSteps<kFormat>::kGroups / 2;
  if constexpr (panel_layout(kFormat).minima)
    std::memcpy(out, block, 64);
  else
    store(reinterpret_cast<float*>(out), block_scale<kFormat>(block));
  out += kStepPairsAt;
  for (int pair = 0; pair < kPairs; ++pair, out += 64) store_integers(out, scale_pair<kFormat>(block, pair));
  if constexpr (panel_layout(kFormat).minima) {
    for (int pair = 0; pair < kPairs; ++pair, out += 64)
      store_integers(out, minimum_pair<kFormat>(block, pair));
  }
}

// Widens `count` inputs of one strip of narrow weights from `first` on, which must begin a block, to
// kPanel.wide.
template <PackedFormat kFormat>
void widen_strip(const std::byte* in, std::int64_t first, std::int64_t count, std::byte* out) {
  constexpr PanelLayout kPanel = panel_layout(kFormat), kWide = panel_layout(kPanel.wide);
  constexpr int kGroups = 64 / kPanel.scale_inputs;
  std::memcpy(out, in, static_cast<std::size_t>(kWide.header_bytes));
  out += kWide.header_bytes;
  const std::byte* block = in + kPanel.header_bytes + first / kPanel.block_inputs * kPanel.block_bytes;
  for (std::int64_t begin = 0; begin < count; begin += kPanel.block_inputs, block += kPanel.block_bytes) {
    if constexpr (kPanel.scales == PanelScales::bytes) {
      widen_steps<kFormat>(block, out);
      out += kWide.scale_bytes;
    }
    for (int group = 0; group < kPanel.block_inputs / 64; ++group) {
      if constexpr (kPanel.scales == PanelScales::shares) {
        for (std::int64_t at = 0; at < kWide.scale_bytes; at += 32)
          std::memcpy(out + at, block + (kGroups > 0 ? at : at / 64 * 32), 32);
        out += kWide.scale_bytes;
      }
      for (int half = 0; half < 2; ++half, out += 512) {
        W quads[8];
        unpack_quads<kFormat>(block, 2 * group + half, quads);
        PAGODA_UNROLL
        for (int v = 0; v < 8; ++v) {
          if constexpr (kWide.zero != kPanel.zero) quads[v] = add_bytes(quads[v], kWide.zero - kPanel.zero);
          store_weights(out + v * 64, quads[v]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pagoda::cpu
