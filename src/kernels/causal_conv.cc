// Chooses the implementation and spreads sequences and channels over threads.
#include "kernels/causal_conv.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/state_rows.h"
#include "kernels/device/ops.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {
namespace {

constexpr std::int64_t kChannels = 64;  // channels of a tile: some cache lines of each row
constexpr std::int64_t kGrain = 16384;  // products below which a second thread is not worth waking

}  // namespace

void causal_conv(const KernelContext& context, const CausalConvArgs& args) {
  CHECK(args.num_taps >= 2 && args.num_taps <= kMaxConvTaps);
  if (on_device(context)) return device_ops::causal_conv(*context.device, args);
  const auto run = context.backend == Backend::reference
                       ? reference::causal_conv
                       : cpu::kernels_of<cpu::StateKernels>(context.level).causal_conv;
  const std::int64_t tiles = ceil_div(args.num_channels, kChannels);
  const auto sequences = static_cast<std::int64_t>(args.states.sequences.size());
  if (sequences == 0) return;
  std::int64_t rows = 0;
  for (const StateSequence& sequence : args.states.sequences) rows += sequence.num_rows;
  const std::int64_t products = std::max<std::int64_t>(1, kChannels * args.num_taps * rows / sequences);
  for_ranges(context, sequences * tiles, ceil_div(kGrain, products),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t at = first; at < last; ++at) {
                 const std::int64_t begin = at % tiles * kChannels;
                 run(args, args.states.sequences[static_cast<std::size_t>(at / tiles)], begin,
                     std::min(begin + kChannels, args.num_channels));
               }
             });
}

}  // namespace pagoda
