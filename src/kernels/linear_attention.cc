// Chooses the implementation and cuts the work into tiles: some columns of one head of one sequence.
#include "kernels/linear_attention.h"

#include "base/check.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/state_rows.h"
#include "kernels/cpu/walk_state.h"
#include "kernels/device/ops.h"
#include "kernels/reference/reference.h"
#include "kernels/tiles.h"

namespace pagoda {
namespace {

struct Columns {
  std::int32_t first = 0, count = 0;
};

// All rows of one sequence, for some columns of one head.
void run_tile(const cpu::StateKernels& kernels, const LinearAttentionArgs& args,
              const StateSequence& sequence, std::int32_t head, Columns columns) {
  const std::int64_t offset = std::int64_t{columns.first} * args.key_size;
  const std::size_t bytes = static_cast<std::size_t>(args.key_size) * columns.count * sizeof(float);
  const std::int64_t first_row = sequence.first_row;
  const std::int64_t key = first_row * args.query.stride + std::int64_t{args.key_head(head)} * args.key_size;
  const std::int64_t value = std::int64_t{head} * args.value_size + columns.first;
  cpu::LinearAttentionTile tile = {.key_size = args.key_size,
                                   .columns = columns.count,
                                   .delta_rule = args.delta_rule,
                                   .query = floats(args.query) + key,
                                   .key = floats(args.key) + key,
                                   .value = floats(args.value, first_row) + value,
                                   .row_stride = args.query.stride,
                                   .decay = floats(args.decay, first_row) + head,
                                   .weight = floats(args.weight, first_row) + head,
                                   .gate_stride = args.decay.stride,
                                   .skip = args.skip != nullptr ? args.skip[head] : 0,
                                   .output = floats(args.output, first_row) + value,
                                   .output_stride = args.output.stride};
  cpu::walk_state(args.states, sequence, args.piece + head, offset, bytes,
                  [&](float* state, std::int32_t begin, std::int32_t end) {
                    tile.state = state;
                    kernels.linear_attention(tile, begin, end);
                  });
}

}  // namespace

void linear_attention(const KernelContext& context, const LinearAttentionArgs& args) {
  CHECK(args.num_key_heads > 0 && (args.tiled_heads || args.num_heads % args.num_key_heads == 0));
  if (on_device(context)) return device_ops::linear_attention(*context.device, args);
  const auto sequences = static_cast<std::int64_t>(args.states.sequences.size());
  if (context.backend == Backend::reference) {
    for_tiles(context, sequences * args.num_heads, [&](std::int64_t tile, int) {
      reference::linear_attention(args,
                                  args.states.sequences[static_cast<std::size_t>(tile / args.num_heads)],
                                  static_cast<std::int32_t>(tile % args.num_heads));
    });
    return;
  }
  const auto& kernels = cpu::kernels_of<cpu::StateKernels>(context.level);
  const std::int64_t tiles_of_head = ceil_div(args.value_size, kStateColumns);
  const std::int64_t tiles_of_sequence = args.num_heads * tiles_of_head;
  for_tiles(context, sequences * tiles_of_sequence, [&](std::int64_t tile, int) {
    const StateSequence& sequence = args.states.sequences[static_cast<std::size_t>(tile / tiles_of_sequence)];
    const auto head = static_cast<std::int32_t>(tile % tiles_of_sequence / tiles_of_head);
    const auto first = static_cast<std::int32_t>(tile % tiles_of_head) * kStateColumns;
    run_tile(kernels, args, sequence, head, {first, std::min(kStateColumns, args.value_size - first)});
  });
}

}  // namespace pagoda
