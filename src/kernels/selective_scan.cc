// Chooses the implementation and cuts the work into tiles: some channels of a piece of one sequence.
#include "kernels/selective_scan.h"

#include "base/check.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/state_rows.h"
#include "kernels/cpu/walk_state.h"
#include "kernels/device/ops.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {
namespace {

// All rows of one sequence, for the channels of one tile.
void scan_tile(const cpu::StateKernels& kernels, const SelectiveScanArgs& args, const StateSequence& sequence,
               std::int64_t channel) {
  const std::int64_t width = std::min(kScanTile, args.num_channels - channel);
  const auto piece = static_cast<std::int32_t>(args.piece + channel / kScanChannels);
  const std::int64_t offset = channel % kScanChannels * args.state_size;
  const std::size_t bytes =
      static_cast<std::size_t>(width) * static_cast<std::size_t>(args.state_size) * sizeof(float);
  const std::int64_t first_row = sequence.first_row;
  cpu::SelectiveScanTile tile = {.state_size = args.state_size,
                                 .channels = width,
                                 .rate = args.rate + channel * args.state_size,
                                 .skip = args.skip + channel,
                                 .step = floats(args.step, first_row) + channel,
                                 .step_stride = args.step.stride,
                                 .value = floats(args.value, first_row) + channel,
                                 .value_stride = args.value.stride,
                                 .key = floats(args.key, first_row),
                                 .query = floats(args.query, first_row),
                                 .key_stride = args.key.stride,
                                 .output = floats(args.output, first_row) + channel,
                                 .output_stride = args.output.stride};
  cpu::walk_state(args.states, sequence, piece, offset, bytes,
                  [&](float* state, std::int32_t begin, std::int32_t end) {
                    tile.state = state;
                    kernels.selective_scan(tile, begin, end);
                  });
}

}  // namespace

void selective_scan(const KernelContext& context, const SelectiveScanArgs& args) {
  static_assert(kScanChannels % kScanTile == 0);
  CHECK(args.num_channels > 0 && args.state_size > 0 && args.key.stride == args.query.stride);
  if (on_device(context)) return device_ops::selective_scan(*context.device, args);
  const auto sequences = static_cast<std::int64_t>(args.states.sequences.size());
  const std::int64_t tiles = ceil_div(args.num_channels, kScanTile);
  const auto& kernels = cpu::kernels_of<cpu::StateKernels>(context.level);
  for_tiles(context, sequences * tiles, [&](std::int64_t tile, int) {
    const StateSequence& sequence = args.states.sequences[static_cast<std::size_t>(tile / tiles)];
    const std::int64_t channel = tile % tiles * kScanTile;
    if (context.backend == Backend::reference)
      reference::selective_scan(args, sequence, channel, std::min(channel + kScanTile, args.num_channels));
    else
      scan_tile(kernels, args, sequence, channel);
  });
}

}  // namespace pagoda
