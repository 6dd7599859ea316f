#pragma once
// LayerLaunches: launches the plain kernels of a layer's ops (kernels/layer_args.h) with their launch shapes,
// in one stream. A call with no rows is a no-op. Errors: the device's. Threads: the device's caller.
#include "device/kernel_launches.h"
#include "device/kernels/low_rank_args.h"
#include "device/kernels/rank_args.h"

namespace pagoda::device {

class LayerLaunches {
 public:
  LayerLaunches(Device& device, StreamId stream) : device_(device), stream_(stream) {}

  Status row_op(const RowOpArgs& args, std::int64_t rows);
  Status norm_groups(const NormGroupsArgs& args, std::int64_t rows, std::int64_t groups);
  Status turn_heads(const TurnHeadsArgs& args, std::int64_t rows, std::int64_t heads);
  Status fill_rotations(const FillRotationsArgs& args, std::int64_t rows);
  Status sparse_gate(const SparseGateArgs& args, std::int64_t rows);
  Status match_magnitude(const MatchMagnitudeArgs& args, std::int64_t rows);
  Status predict_streams(const StreamsArgs& args, std::int64_t rows);
  Status correct_streams(const StreamsArgs& args, std::int64_t rows);
  Status recurrent_gates(const RecurrentGatesArgs& args, std::int64_t rows);
  Status latent_rows(const LatentRowsArgs& args, std::int64_t rows);
  // `cache`: f32, bf16, i8 or fp8.
  Status write_kv(Element cache, const WriteKvArgs& args, std::int64_t rows, std::int64_t kv_heads);
  Status attend(Element cache, const AttendArgs& args, std::int64_t rows);
  Status causal_conv(const CausalConvRows& args, std::int64_t sequences);
  Status linear_attention(const LinearAttentionRows& args, std::int64_t sequences);
  Status selective_scan(const SelectiveScanRows& args, std::int64_t sequences);
  Status route_sparsely(const RouteSparselyArgs& args, std::int64_t rows);
  Status scale_choices(const ScaleChoicesArgs& args);
  // Low-rank adapters: first the dot products of `rows` rows, then their sums.
  Status low_rank_dots(const LowRankArgs& args, std::int64_t rows);
  Status low_rank_sums(const LowRankArgs& args, std::int64_t rows);
  // Ranks on several devices (kernels/rank_args.h).
  Status share_rows(const ShareRowsArgs& args, std::int64_t rows);
  Status meet_ranks(const MeetRanksArgs& args);
  Status collect_rows(const CollectRowsArgs& args, std::int64_t rows);
  Status sum_rows(const SumRowsArgs& args, std::int64_t rows);

  // True if the kernels support heads whose state has this many rows: a tile of the state must fit in shared
  // memory.
  static bool supports_states(std::int32_t key_size) {
    return key_size > 0 &&
           key_size <= static_cast<std::int32_t>(kMaxSharedBytes / sizeof(float)) / kStateTile;
  }
  // True if the kernels support channels with this many state elements: those of a block must fit in shared
  // memory.
  static bool supports_scan(std::int32_t state_size) {
    return state_size > 0 &&
           state_size <= static_cast<std::int32_t>(kMaxSharedBytes / sizeof(float)) / kScanThreads;
  }

 private:
  template <class Args>
  Status put(KernelId id, Dim3 grid, std::uint32_t threads, std::uint32_t shared, const Args& args) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return ok_status();
    return launch(device_, stream_, kernel(device_, id),
                  LaunchShape{.grid = grid, .block = {threads}, .shared_bytes = shared}, args);
  }

  Device& device_;
  StreamId stream_;
};

}  // namespace pagoda::device
