#pragma once
// The selective scan of Mamba-1: every channel keeps a vector per sequence, each element of which decays at
// its own rate. The same formula serves one token and many, with tokens strictly in order.
//   T  rows of the batch    C  channels    N  elements of a channel's state
//
//   d    = softplus(step)                                                   [C]
//   h[n] <- exp(rate[n] * d) * h[n] + d * value * key[n]                    h [N, C]
//   output = sum over n of query[n] * h[n], n ascending, + skip * value     [C]
//
// Papers call key B, query C and rate A. Mamba-2, where all elements of a head share one decay, is in
// linear_attention.h. Not here: the products that give step, key and query, and the gate that follows.
// Source: Mamba (arXiv 2312.00752) §3.2 and algorithm 2.
#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/sequence_state.h"

namespace pagoda {

struct SelectiveScanArgs {
  std::int64_t num_channels = 0;
  std::int32_t state_size = 0;
  const float* rate = nullptr;   // [N, C], indexed by scan_index()
  const float* skip = nullptr;   // [C]
  Buffer step = {}, value = {};  // [T, C]
  Buffer key = {}, query = {};   // [T, N], with the same stride
  Buffer output = {};            // [T, C]; may be `step`
  // The state of channels [p * kScanChannels, (p + 1) * kScanChannels) is piece `piece` + p of the layer's
  // state, ordered by scan_index().
  LayerStates states;
  std::int32_t piece = 0;
};

// Per-channel numbers are stored in tiles of this many channels, each [N, channels of the tile] and
// contiguous.
constexpr std::int64_t kScanTile = 16;
inline std::int64_t scan_index(std::int64_t num_channels, std::int32_t state_size, std::int32_t element,
                               std::int64_t channel) {
  const std::int64_t first = channel / kScanTile * kScanTile;
  const std::int64_t width = std::min(kScanTile, num_channels - first);
  return first * state_size + element * width + (channel - first);
}

constexpr std::int64_t kScanChannels = 256;  // channels per piece; whole tiles

void selective_scan(const KernelContext& context, const SelectiveScanArgs& args);

}  // namespace pagoda
