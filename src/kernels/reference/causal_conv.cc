#include "kernels/causal_conv.h"

#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace pagoda::reference {

void causal_conv(const CausalConvArgs& args, const StateSequence& sequence, std::int64_t begin,
                 std::int64_t end) {
  const std::int32_t kept = args.num_taps - 1;
  for (std::int64_t channel = begin; channel < end; ++channel) {
    std::vector<float> inputs(static_cast<std::size_t>(kept), 0.0f);  // the most recent inputs, oldest first
    const auto at = [&](float* columns, std::int32_t i) -> float& {
      return columns[i * args.num_channels + channel];
    };
    float* const own = args.states.piece(sequence, args.piece);
    for (std::int32_t i = 0; i < kept && !sequence.fresh; ++i)
      inputs[static_cast<std::size_t>(i)] = at(own, i);
    const auto keep = [&](float* columns) {
      for (std::int32_t i = 0; i < kept; ++i)
        at(columns, i) = inputs[inputs.size() - static_cast<std::size_t>(kept - i)];
    };
    for (std::int32_t row = 0; row < sequence.num_rows; ++row) {
      const std::int64_t from = (sequence.first_row + row) * args.input.stride + channel;
      const float gate = args.gate ? floats(args.gate)[from] : 1.0f;
      inputs.push_back(floats(args.input)[from] * gate);
      double sum = 0;
      for (std::int32_t tap = 0; tap < args.num_taps; ++tap) {
        const std::size_t input = inputs.size() - static_cast<std::size_t>(args.num_taps - tap);
        sum += static_cast<double>(args.weight[tap * args.num_channels + channel]) * inputs[input];
      }
      if (args.bias != nullptr) sum += args.bias[channel];
      if (args.silu) sum = sum / (1.0 + std::exp(-sum));
      if (args.output_gate) sum *= floats(args.output_gate)[from];
      floats(args.output, sequence.first_row + row)[channel] = static_cast<float>(sum);
      for (const StateStore& store : sequence.stores)
        if (store.num_rows == row + 1) keep(args.states.piece(store, args.piece));
      if (row + 1 == sequence.num_rows - sequence.num_drafts) keep(own);
    }
  }
}

}  // namespace pagoda::reference
