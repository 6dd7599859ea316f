#pragma once
// Linear: y = x W^T (+ bias) with W packed once at load for the instruction that will read it.
//   M rows of x, K input features, N output features; x, y float32 row-major.
// What is packed lies in memory of its own, or in a file that others may have mapped too.
// Source: reference/ holds the plain form; layouts in cpu/README.md.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/activation.h"
#include "kernels/backend.h"
#include "kernels/buffer.h"
#include "kernels/embedded_ids.h"
#include "kernels/logits.h"
#include "kernels/low_rank.h"
#include "tensor/linear_arithmetic.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// The arithmetic of a packed weight.
enum class LinearType {
  float32,   // f32 weights, f32 accumulation
  bfloat16,  // bf16 weights and activations, f32 accumulation
  int8,  // weights in 8 bits with a scale, and a minimum if they have one, for 32 inputs of an output (4-bit
         // types stay in 4 bits), activations int8 with one scale for a token's 32 inputs, beside K types for
         // 256
  float16,  // f16 weights, which saturate at its largest number; f32 activations and accumulation
};

// stacked: the matrices one below the other (fused QKV), N rows together.
// gated: two of N rows each, gate and up, of which linear makes N outputs f(gate) * up.
enum class LinearForm { stacked, gated };

class PackedLinear {
 public:
  PackedLinear();
  ~PackedLinear();
  PackedLinear(PackedLinear&&) noexcept;
  PackedLinear& operator=(PackedLinear&&) noexcept;

  // Packs the rows of `weights`; all have K columns. `bias` is empty or has an entry for each row.
  // `on_packed` is called with rows that are no longer read, some MiB at a time: they may be freed.
  // invalid_argument: shapes that do not fit together.
  static Result<PackedLinear> pack(const KernelContext& context, LinearType type,
                                   std::span<const TensorView> weights, std::vector<float> bias = {},
                                   LinearForm form = LinearForm::stacked,
                                   const LinearArithmetic& arithmetic = {},
                                   const std::function<void(const TensorView&)>& on_packed = {});

  std::int64_t n() const;
  std::int64_t k() const;
  std::int64_t multiplications() const;  // for one row of x
  std::int64_t packed_bytes() const;
  LinearType type() const;
  const LinearArithmetic& arithmetic() const;

  // A hint: `next` is most likely multiplied right after this, by the same rows. It stays where it is for as
  // long as this one is in use.
  void precedes(const PackedLinear& next);

  // The place of this matrix in AdapterFactors; -1: no adapter adds to its products.
  std::int32_t adapter_slot() const;
  void set_adapter_slot(std::int32_t slot);

  // Whether row() gives the very values that were packed, so that a table of them need not be kept beside it.
  bool keeps_values() const;
  // One of the n() rows of stacked matrices in float32, without its bias, into out[k()].
  void row(std::int64_t index, float* out) const;

  // Rises whenever the bytes of any panel, or the description, come to mean something else.
  static constexpr std::uint32_t kLayoutVersion = 12;
  // Packed once, it can be written to a file and mapped: description() is everything but bytes(), and holds
  // only for this layout's version, which is in it.
  std::string description() const;
  std::span<const std::byte> bytes() const;
  // `bytes` begin at a multiple of 64 and stay readable as long as `owner` lives. The result computes the
  // same bits as what was written, at its CPU level; points of a table, which are packed for AVX-512, not at
  // another. corrupt_data: the two do not fit together.
  static Result<PackedLinear> map(std::string_view description, std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner);

  struct Storage;  // kernels/ only
  const Storage& storage() const { return *storage_; }

 private:
  std::unique_ptr<Storage> storage_;
};

// The left factor of linear: rows of floats, or the output of a norm (elementwise.h) on them, which then
// costs no pass of its own.
struct LinearInput {
  const float* x = nullptr;  // first row
  std::int64_t stride = 0;   // floats from row to row

  enum class Op { none, rms_norm, layer_norm };
  Op op = Op::none;
  const float *weight = nullptr, *bias = nullptr;  // norms' [K]; layer_norm: may be null
  float eps = 0;

  // Each row's adapter adds to its products, of matrices that have an adapter_slot(): of two matrices behind
  // each other to both.
  RowAdapters adapters = nullptr;

  static LinearInput rows(const float* x, std::int64_t k) { return {.x = x, .stride = k}; }
  static LinearInput rows(const Buffer& x) { return {.x = floats(x), .stride = x.stride}; }
};

// The use of the products: one of these, or none.
struct LinearOutput {
  bool accumulate = false;                    // y += (residual connection)
  std::optional<Activation> activation = {};  // y = f(product), of gated weights f(gate) * up: these need one
  bool read_late = false;  // a hint: so much is computed before y is read that caches need not keep it
};

// input [num_rows, K] -> y [num_rows, N], its rows one directly behind the other. What the input points to
// and y must not overlap. A row's adapter is an addend of the output behind the product (low_rank.h).
void linear(const KernelContext& context, const PackedLinear& weight, const LinearInput& input,
            std::int64_t num_rows, const Buffer& y, const LinearOutput& output = {});

// Two of them, y = (accumulate: y +) second(f(first(input))), with the same bits. `between` [num_rows, K of
// the second] is room for rows that have to take the way through memory.
void linear_pair(const KernelContext& context, const PackedLinear& first, Activation activation,
                 const PackedLinear& second, const LinearInput& input, std::int64_t num_rows,
                 const Buffer& between, const Buffer& y, bool accumulate = true);

// Whether products of so many rows bring into the cache what KernelContext::read_ahead names, and when that
// is best: beside all products before it is read, or beside the last ones alone.
enum class BringsAhead { nothing, early, late };
BringsAhead brings_ahead(const KernelContext& context, std::int64_t num_rows);

// The largest element of each row of input W^T: max_logit of the row, which itself is not stored.
void linear_max(const KernelContext& context, const PackedLinear& weight, const LinearInput& input,
                std::span<LogitMax> largest);

// Rows `ids` of stacked matrices, PackedLinear::row() of each, into out [ids, K]; zeros for others' ids.
void packed_rows(const KernelContext& context, const PackedLinear& weight, std::span<const std::int32_t> ids,
                 const Buffer& out, const EmbeddedIds& own = {});

// The part of a scheme's arithmetic that weights packed as `type` are computed with: e4m3 inputs are no use
// to those in 8-bit integers.
LinearArithmetic arithmetic_with(LinearType type, const LinearArithmetic& scheme);

// Whether products of weights of this type are in 8 bits unless a dtype is asked for.
bool multiplies_in_int8(DType stored);

// The LinearType that `dtype` ("auto", "float32", "bfloat16", "float16", "int8") means for weights stored as
// `stored` on this CPU. auto: int8 for types that multiplies_in_int8(), else bfloat16 (float32 without AVX2).
Result<LinearType> choose_linear_type(std::string_view dtype, DType stored, CpuLevel level);

// Bytes that so many weights, in rows of whole blocks, take once they are packed as `auto` has it.
std::int64_t estimated_packed_bytes(DType stored, std::int64_t elements,
                                    CpuLevel level = detected_cpu_level());

}  // namespace pagoda
