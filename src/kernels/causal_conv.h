#pragma once
// A short causal convolution of each channel on its own, over the tokens of each sequence (LFM2's short
// convolution; also precedes gated delta nets and Mamba-2). The state of a sequence is its last K - 1 inputs.
//   T rows of the batch   C channels   K taps
//
//   x[r] = input[r] * gate[r]                                                             [C]
//   y[r] = f(weight[0] * x[r - K + 1] + ... + weight[K - 1] * x[r] + bias) * output_gate[r]
//
// Rows before a sequence's first token count as zeros. The sum runs from the oldest to the newest row; the
// bias is added last.
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/sequence_state.h"

namespace pagoda {

constexpr std::int32_t kMaxConvTaps = 8;

struct CausalConvArgs {
  std::int64_t num_channels = 0;
  std::int32_t num_taps = 0;      // 2 to kMaxConvTaps
  const float* weight = nullptr;  // [K, C]: the file's [C, 1, K], transposed
  const float* bias = nullptr;    // [C], or null for none
  bool silu = false;              // f
  Buffer input = {};              // [T, C]; the gates have the same shape and stride
  Buffer gate = {};               // empty: 1
  Buffer output_gate = {};        // empty: 1
  Buffer output = {};             // [T, C]; may be `input`
  // The state is piece `piece` of the layer's state: x as above, [K - 1, C], oldest row first.
  LayerStates states;
  std::int32_t piece = 0;
};

void causal_conv(const KernelContext& context, const CausalConvArgs& args);

}  // namespace pagoda
