#include "kernels/selective_scan.h"

#include <cmath>
#include <vector>

#include "kernels/reference/reference.h"

namespace pagoda::reference {

void selective_scan(const SelectiveScanArgs& args, const StateSequence& sequence, std::int64_t begin,
                    std::int64_t end) {
  const std::int32_t size = args.state_size;
  for (std::int64_t channel = begin; channel < end; ++channel) {
    const std::int64_t first = channel / kScanChannels * kScanChannels;
    const auto piece = static_cast<std::int32_t>(args.piece + channel / kScanChannels);
    const auto at = [&](float* of_piece, std::int32_t n) -> float& {
      return of_piece[scan_index(args.num_channels, size, n, channel) - first * size];
    };
    std::vector<float> state(static_cast<std::size_t>(size), 0.0f);
    for (std::int32_t n = 0; n < size && !sequence.fresh; ++n)
      state[static_cast<std::size_t>(n)] = at(args.states.piece(sequence, piece), n);
    const auto write = [&](float* to) {
      for (std::int32_t n = 0; n < size; ++n) at(to, n) = state[static_cast<std::size_t>(n)];
    };
    for (std::int32_t row = 0; row < sequence.num_rows; ++row) {
      const std::int64_t r = sequence.first_row + row;
      const double raw = floats(args.step, r)[channel];
      const double step = raw > 30 ? raw : std::log1p(std::exp(raw));
      const double value = floats(args.value, r)[channel];
      double sum = 0;
      for (std::int32_t n = 0; n < size; ++n) {
        float& h = state[static_cast<std::size_t>(n)];
        const double rate = args.rate[scan_index(args.num_channels, size, n, channel)];
        h = static_cast<float>(std::exp(rate * step) * h + step * value * floats(args.key, r)[n]);
        sum += static_cast<double>(floats(args.query, r)[n]) * h;
      }
      floats(args.output, r)[channel] = static_cast<float>(sum + args.skip[channel] * value);
      for (const StateStore& store : sequence.stores)
        if (store.num_rows == row + 1) write(args.states.piece(store, piece));
      if (row + 1 == sequence.num_rows - sequence.num_drafts) write(args.states.piece(sequence, piece));
    }
  }
}

}  // namespace pagoda::reference
