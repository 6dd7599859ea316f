#include "device/layer_launches.h"

#include "device/kernels/launch_shapes.h"
#include "device/launch_sizes.h"

namespace pagoda::device {
namespace {

constexpr std::uint32_t kRowShared = kRowThreads / 32 * sizeof(float);  // a float per warp

std::uint32_t blocks(std::int64_t count, std::int64_t each) { return u32((count + each - 1) / each); }

// The kernel for a cache's element type: they are consecutive in kernels.def.
KernelId of_cache(Element cache, KernelId of_f32) {
  return static_cast<KernelId>(static_cast<std::int32_t>(of_f32) + place_of_cache(cache));
}

}  // namespace

Status LayerLaunches::row_op(const RowOpArgs& args, std::int64_t rows) {
  return put(KernelId::row_op, {u32(rows)}, kRowThreads, 0, args);
}

Status LayerLaunches::norm_groups(const NormGroupsArgs& args, std::int64_t rows, std::int64_t groups) {
  // The norm of a whole row has the threads of rms_norm(), and so the bits of a product's own norm
  // (InputNorm).
  const std::int32_t threads = groups == 1 && args.size >= kWideRow ? kWideRowThreads : kRowThreads;
  return put(KernelId::norm_groups, {u32(rows), u32(groups)}, u32(threads), u32(threads) / 32 * sizeof(float),
             args);
}

Status LayerLaunches::turn_heads(const TurnHeadsArgs& args, std::int64_t rows, std::int64_t heads) {
  return put(KernelId::turn_heads, {u32(rows), u32(heads)}, kWarp, 0, args);
}

Status LayerLaunches::fill_rotations(const FillRotationsArgs& args, std::int64_t rows) {
  return put(KernelId::fill_rotations, {u32(rows)}, kWarp, 0, args);
}

Status LayerLaunches::sparse_gate(const SparseGateArgs& args, std::int64_t rows) {
  return put(KernelId::sparse_gate, {u32(rows)}, kRowThreads, kRowShared, args);
}

Status LayerLaunches::match_magnitude(const MatchMagnitudeArgs& args, std::int64_t rows) {
  return put(KernelId::match_magnitude, {u32(rows)}, kRowThreads, kRowShared, args);
}

Status LayerLaunches::predict_streams(const StreamsArgs& args, std::int64_t rows) {
  CHECK(args.streams <= kMostStreams);
  return put(KernelId::predict_streams, {u32(rows)}, kRowThreads,
             u32(args.streams) * u32(args.streams) * sizeof(float), args);
}

Status LayerLaunches::correct_streams(const StreamsArgs& args, std::int64_t rows) {
  return put(KernelId::correct_streams, {u32(rows)}, kRowThreads, 0, args);
}

Status LayerLaunches::recurrent_gates(const RecurrentGatesArgs& args, std::int64_t rows) {
  return put(KernelId::recurrent_gates, {u32(rows)}, kWarp, 0, args);
}

Status LayerLaunches::latent_rows(const LatentRowsArgs& args, std::int64_t rows) {
  return put(KernelId::latent_rows, {u32(rows), u32(args.num_heads + 1)}, kWarp, 0, args);
}

Status LayerLaunches::write_kv(Element cache, const WriteKvArgs& args, std::int64_t rows,
                               std::int64_t kv_heads) {
  return put(of_cache(cache, KernelId::write_kv_f32), {u32(rows), u32(kv_heads)}, kWarp, 0, args);
}

Status LayerLaunches::attend(Element cache, const AttendArgs& args, std::int64_t rows) {
  CHECK(args.value_size <= kMostValueSize);
  return put(of_cache(cache, KernelId::attend_f32), {u32(rows), u32(args.num_query_heads)}, kWarp, 0, args);
}

Status LayerLaunches::causal_conv(const CausalConvRows& args, std::int64_t sequences) {
  CHECK(args.num_taps <= kMostTaps);
  return put(KernelId::causal_conv, {u32(sequences), blocks(args.num_channels, kRowThreads)}, kRowThreads, 0,
             args);
}

Status LayerLaunches::linear_attention(const LinearAttentionRows& args, std::int64_t sequences) {
  const std::uint32_t shared = u32(args.key_size) * kStateTile * sizeof(float);
  CHECK(supports_states(args.key_size));
  return put(KernelId::linear_attention,
             {u32(sequences), u32(args.num_heads), blocks(args.value_size, kStateTile)}, kWarp, shared, args);
}

Status LayerLaunches::selective_scan(const SelectiveScanRows& args, std::int64_t sequences) {
  const std::uint32_t shared = u32(args.state_size) * kScanThreads * sizeof(float);
  CHECK(supports_scan(args.state_size));
  return put(KernelId::selective_scan, {u32(sequences), blocks(args.num_channels, kScanThreads)},
             kScanThreads, shared, args);
}

Status LayerLaunches::route_sparsely(const RouteSparselyArgs& args, std::int64_t rows) {
  return put(KernelId::route_sparsely, {u32(rows)}, kWarp, 2 * u32(args.experts) * sizeof(float), args);
}

Status LayerLaunches::scale_choices(const ScaleChoicesArgs& args) {
  return put(KernelId::scale_choices, {blocks(args.count, kRowThreads)}, kRowThreads, 0, args);
}

Status LayerLaunches::low_rank_dots(const LowRankArgs& args, std::int64_t rows) {
  return put(KernelId::low_rank_dots, {u32(rows), blocks(args.most_ranks, kRowThreads / kWarp)}, kRowThreads,
             0, args);
}

Status LayerLaunches::low_rank_sums(const LowRankArgs& args, std::int64_t rows) {
  return put(KernelId::low_rank_sums, {u32(rows), blocks(args.outputs, kRowThreads)}, kRowThreads, 0, args);
}

Status LayerLaunches::share_rows(const ShareRowsArgs& args, std::int64_t rows) {
  return put(KernelId::share_rows, {u32(rows)}, kRowThreads, 0, args);
}

Status LayerLaunches::meet_ranks(const MeetRanksArgs& args) {
  return put(KernelId::meet_ranks, {1}, kWarp, 0, args);
}

Status LayerLaunches::collect_rows(const CollectRowsArgs& args, std::int64_t rows) {
  return put(KernelId::collect_rows, {u32(rows)}, kRowThreads, 0, args);
}

Status LayerLaunches::sum_rows(const SumRowsArgs& args, std::int64_t rows) {
  return put(KernelId::sum_rows, {u32(rows)}, kRowThreads, 0, args);
}

}  // namespace pagoda::device
