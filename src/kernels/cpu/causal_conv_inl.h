// The causal convolution over the sixteen lanes of simd_*.h: each lane is a channel, which keeps its last
// inputs in registers from row to row.
#include "kernels/cpu/lanes_inl.h"
#include "kernels/cpu/state_rows.h"

namespace pagoda::cpu {
namespace {

using namespace simd;  // NOLINT: this file is the body of one translation unit

template <int kTaps>
void convolve(const CausalConvArgs& args, const StateSequence& sequence, std::int64_t channel,
              std::int64_t lanes) {
  constexpr int kKept = kTaps - 1;
  F past[kKept], weight[kTaps];
  for (int tap = 0; tap < kTaps; ++tap)
    weight[tap] = get(args.weight + tap * args.num_channels + channel, lanes);
  const F bias = args.bias != nullptr ? get(args.bias + channel, lanes) : zero();
  float* const own = args.states.piece(sequence, args.piece) + channel;
  for (int i = 0; i < kKept; ++i) past[i] = sequence.fresh ? zero() : get(own + i * args.num_channels, lanes);
  const auto keep = [&](float* columns) {
    for (int i = 0; i < kKept; ++i) put(columns + i * args.num_channels, past[i], lanes);
  };
  const StateStore* next = sequence.stores.data();
  const StateStore* const last = next + sequence.stores.size();
  const std::int32_t kept_rows = sequence.num_rows - sequence.num_drafts;
  const float *const input = floats(args.input), *const gate = floats(args.gate),
                     *const output_gate = floats(args.output_gate);
  float* const output = floats(args.output);
  for (std::int32_t row = 0; row < sequence.num_rows; ++row) {
    const std::int64_t from = (sequence.first_row + row) * args.input.stride + channel;
    F x = get(input + from, lanes);
    if (gate != nullptr) x = mul(x, get(gate + from, lanes));
    F y = mul(weight[0], past[0]);
    for (int tap = 1; tap < kKept; ++tap) y = fma(weight[tap], past[tap], y);
    y = fma(weight[kKept], x, y);
    if (args.bias != nullptr) y = add(y, bias);
    if (args.silu) y = times_sigmoid(y, y);
    if (output_gate != nullptr) y = mul(y, get(output_gate + from, lanes));
    put(output + (sequence.first_row + row) * args.output.stride + channel, y, lanes);
    for (int i = 0; i + 1 < kKept; ++i) past[i] = past[i + 1];
    past[kKept - 1] = x;
    for (; next != last && next->num_rows == row + 1; ++next)
      keep(args.states.piece(*next, args.piece) + channel);
    if (row + 1 == kept_rows) keep(own);
  }
}

template <int kTaps>
void convolve_all(const CausalConvArgs& args, const StateSequence& sequence, std::int64_t begin,
                  std::int64_t end) {
  for (std::int64_t channel = begin; channel < end; channel += 16)
    convolve<kTaps>(args, sequence, channel, end - channel >= 16 ? 16 : end - channel);
}

void causal_conv(const CausalConvArgs& args, const StateSequence& sequence, std::int64_t begin,
                 std::int64_t end) {
  static_assert(kMaxConvTaps == 8);
  switch (args.num_taps) {
    case 2:
      return convolve_all<2>(args, sequence, begin, end);
    case 3:
      return convolve_all<3>(args, sequence, begin, end);
    case 4:
      return convolve_all<4>(args, sequence, begin, end);
    case 5:
      return convolve_all<5>(args, sequence, begin, end);
    case 6:
      return convolve_all<6>(args, sequence, begin, end);
    case 7:
      return convolve_all<7>(args, sequence, begin, end);
    default:
      return convolve_all<8>(args, sequence, begin, end);
  }
}

}  // namespace
}  // namespace pagoda::cpu
