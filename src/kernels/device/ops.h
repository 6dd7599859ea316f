#pragma once
// The ops of kernels/ on a device, as launches on its stream. Each has the arguments of the op in its header.
#include "kernels/attention_input.h"
#include "kernels/backend.h"
#include "kernels/causal_conv.h"
#include "kernels/device/device_ops.h"
#include "kernels/elementwise.h"
#include "kernels/latent_input.h"
#include "kernels/linear.h"
#include "kernels/linear_attention.h"
#include "kernels/mixture.h"
#include "kernels/paged_attention.h"
#include "kernels/residual_streams.h"
#include "kernels/rows.h"
#include "kernels/selective_scan.h"

namespace pagoda::device_ops {

inline device::StridedRows strided(const Buffer& rows) {
  return {.data = rows ? floats(rows) : nullptr, .stride = rows.stride};
}
inline std::int32_t i32(std::int64_t value) { return static_cast<std::int32_t>(value); }

// rows.h: each is one pass of row_op.
void row_op(DeviceOps& ops, RowShape shape, device::RowOpArgs args);
void gather_rows(DeviceOps& ops, std::span<const std::int32_t> rows, std::int64_t width, const Buffer& x);
void sparse_gate(DeviceOps& ops, const SparseGate& how, std::int64_t num_rows, const Buffer& gates,
                 const Buffer& up);
void recurrent_gates(DeviceOps& ops, const RecurrentGates& gates, std::int64_t num_rows, const Buffer& weight,
                     const Buffer& decay);
void fill_rotations(DeviceOps& ops, std::span<const std::int32_t> positions,
                    std::span<const double> frequencies, double amplitude, const Buffer& out);

// elementwise.h
void norm(DeviceOps& ops, device::GroupNorm kind, const Buffer& x, std::int64_t num_rows, std::int64_t width,
          const float* weight, const float* bias, float eps, const Buffer& out);
void embedding(DeviceOps& ops, const TensorView& table, std::span<const std::int32_t> ids, const Buffer& out,
               const EmbeddedIds& own);
void rope(DeviceOps& ops, const Buffer& x, std::int64_t num_rows, std::int32_t num_heads,
          std::int32_t head_size, std::int32_t rotary_size, std::span<const std::int32_t> positions,
          const Buffer& cos_sin);
void heads_to_unit(DeviceOps& ops, const Buffer& x, std::int64_t num_rows, std::int32_t num_heads,
                   std::int32_t head_size, float eps, float scale);
void gated_rms_norm(DeviceOps& ops, const GatedNorm& norm, std::int64_t num_rows, const Buffer& x,
                    const Buffer& gate);

// residual_streams.h
void match_magnitude(DeviceOps& ops, const StreamShape& shape, const Buffer& from, const Buffer& like,
                     StreamSum sum, const Buffer& to);
void predict_streams(DeviceOps& ops, const StreamShape& shape, const float* factors, const Buffer& modes,
                     const Buffer& x, const Buffer& others, const Buffer& predicted);
void correct_streams(DeviceOps& ops, const StreamShape& shape, const float* factors, const Buffer& modes,
                     const Buffer& predicted, const Buffer& x, const Buffer& others);

// linear.h, latent_input.h
void linear(DeviceOps& ops, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, const Buffer& y, const LinearOutput& output);
void linear_pair(DeviceOps& ops, const PackedLinear::Storage& first, Activation activation,
                 const PackedLinear::Storage& second, const LinearInput& input, std::int64_t num_rows,
                 const Buffer& between, const Buffer& y, bool accumulate);
void packed_rows(DeviceOps& ops, const PackedLinear::Storage& weight, std::span<const std::int32_t> ids,
                 const Buffer& out, const EmbeddedIds& own);
void latent_rows(DeviceOps& ops, const LatentRows& shape, std::int64_t num_rows, const Buffer& queries,
                 const Buffer& kept, const Buffer& out);
// Scratch for an input in rounded form, in slabs, if the product takes all of it by tiles and it needs no
// zeros beyond its end; otherwise null.
std::uint16_t* scratch_for_attended(DeviceOps& ops, const PackedLinear::Storage& weight,
                                    std::int64_t num_rows);
// Adapters' addends of a product: the constructor computes A x from the product's input; B (A x) is added to
// its outputs afterwards. A no-op if no row has factors for the matrix.
class AdapterAddends {
 public:
  AdapterAddends(DeviceOps& ops, const PackedLinear::Storage& weight, const LinearInput& input,
                 std::int64_t num_rows);
  bool are_there() const { return are_there_; }
  void add_to(float* y, std::int64_t stride);

 private:
  DeviceOps& ops_;
  bool are_there_ = false;
  std::int64_t count_ = 0;
  device::LowRankArgs args_;
};
// The rows that products read: `k` floats each, contiguous, at multiples of 16 bytes; null if out of memory,
// with an error kept by `ops`.
const float* input_rows(DeviceOps& ops, const LinearInput& input, std::int64_t num_rows, std::int64_t k);

void finish_attention_input(DeviceOps& ops, const AttentionInputArgs& args);
void paged_attention(DeviceOps& ops, const PagedAttentionArgs& args);
// True if prompts may use warpgroups, which must be tested on the device: check_bulk_attention().
bool takes_bulk_attention(const DeviceOps::Options& options);
// True if layers with these heads use attention by tiles over such a cache.
bool attends_by_tiles(const DeviceOps::Options& options, DType cache, std::int32_t query_heads,
                      std::int32_t kv_heads, std::int32_t head_size);
void causal_conv(DeviceOps& ops, const CausalConvArgs& args);
void linear_attention(DeviceOps& ops, const LinearAttentionArgs& args);
void selective_scan(DeviceOps& ops, const SelectiveScanArgs& args);
// Maximum floats of splits held in scratch: more rows are computed in several rounds.
inline constexpr std::int64_t kPartialFloats = std::int64_t{8} << 20;
std::int64_t mixture_scratch(const MixtureArgs& args);
Status mixture(DeviceOps& ops, const MixtureArgs& args, const Buffer& logits, const LinearInput& input,
               std::int64_t num_rows, const Buffer& scratch, bool accumulate, const Buffer& y);

// Exchanges of ranks on several devices (models/decoder/rank_exchange.h), through windows. Rank r has columns
// [ends[r - 1], ends[r]) of some rows: `all` receives the rows, on every rank or only on rank 0. `own` may be
// part of `all`.
enum class RankResult { of_all, of_first };
void gather_columns(DeviceOps& ops, std::span<const std::int64_t> ends, std::int64_t num_rows,
                    const Buffer& own, const Buffer& all, RankResult result = RankResult::of_all);
// x = the sum of every rank's x, in rank order.
void sum_ranks(DeviceOps& ops, RowShape shape, const Buffer& x);

// The device's enumerators for a function between matrices, and for a router's score.
device::Function function_of(Activation activation);
device::Score score_of(RouterScore score);

}  // namespace pagoda::device_ops
