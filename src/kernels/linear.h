#pragma once
// Linear: y = x W^T (+ bias), with W packed once at load time for the instruction that will read it.
//   M rows of x, K input features, N output features; x, y float32 row-major.
// The packed data lies in its own memory or in a mapped file, which other processes may have mapped too.
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

// The arithmetic used with a packed weight.
enum class LinearType {
  float32,   // f32 weights, f32 accumulation
  bfloat16,  // bf16 weights and activations, f32 accumulation
  // Weights in 8 bits with a scale, and a minimum if the type has one, per 32 inputs of an output (4-bit
  // types stay in 4 bits). Activations in int8 with one scale per token and 32 inputs, or 256 inputs beside K
  // types.
  int8,
  float16,  // f16 weights, which saturate at its largest number; f32 activations and accumulation
};

// stacked: the matrices one below the other (fused QKV), N rows in total. gated: two matrices of N rows each,
// gate and up; linear computes the N outputs f(gate) * up.
enum class LinearForm { stacked, gated };

class PackedLinear {
 public:
  PackedLinear();
  ~PackedLinear();
  PackedLinear(PackedLinear&&) noexcept;
  PackedLinear& operator=(PackedLinear&&) noexcept;

  // Packs the rows of `weights`; all have K columns. `bias` is empty or has one entry per row. `on_packed` is
  // called, every few MiB, with rows that are no longer read and may be freed. invalid_argument if the shapes
  // do not fit together.
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

  // A hint that `next` will probably be multiplied right after this matrix, by the same rows. `next` must
  // stay at its address while this matrix is in use.
  void precedes(const PackedLinear& next);

  // This matrix's index in AdapterFactors; -1 if adapters never apply to its products.
  std::int32_t adapter_slot() const;
  void set_adapter_slot(std::int32_t slot);

  // True if row() returns exactly the packed values, so that no separate table of them is needed.
  bool keeps_values() const;
  // Writes row `index` of the n() rows of stacked matrices to out[k()], in float32 and without bias.
  void row(std::int64_t index, float* out) const;

  // Incremented whenever the meaning of a panel's bytes, or of the description, changes.
  static constexpr std::uint32_t kLayoutVersion = 12;
  // A packed matrix can be written to a file and mapped later. description() holds everything except bytes();
  // it includes the layout version and is only valid for that version.
  std::string description() const;
  std::span<const std::byte> bytes() const;
  // `bytes` must be aligned to 64 and stay readable for the lifetime of `owner`. At the CPU level it was
  // packed for, the mapped matrix computes the same bits as the original; point panels, packed for AVX-512,
  // work at no other level. corrupt_data if `description` and `bytes` do not match.
  static Result<PackedLinear> map(std::string_view description, std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner);

  struct Storage;  // kernels/ only
  const Storage& storage() const { return *storage_; }

 private:
  std::unique_ptr<Storage> storage_;
};

// The left factor of linear: rows of floats, or the result of a norm (elementwise.h) on them, which then
// needs no separate pass.
struct LinearInput {
  const float* x = nullptr;  // first row
  std::int64_t stride = 0;   // floats between rows

  enum class Op { none, rms_norm, layer_norm };
  Op op = Op::none;
  const float *weight = nullptr, *bias = nullptr;  // the norm's weights and bias [K]; layer_norm: may be null
  float eps = 0;

  // Each row's adapter adds to the row's products with matrices that have an adapter_slot(). In linear_pair
  // it adds to both products.
  RowAdapters adapters = nullptr;

  static LinearInput rows(const float* x, std::int64_t k) { return {.x = x, .stride = k}; }
  static LinearInput rows(const Buffer& x) { return {.x = floats(x), .stride = x.stride}; }
};

// How the products are used: at most one of the following.
struct LinearOutput {
  bool accumulate = false;  // y += (residual connection)
  // y = f(product). Gated weights, for which y = f(gate) * up, require an activation.
  std::optional<Activation> activation = {};
  bool read_late = false;  // a hint: so much is computed before y is read that y need not stay in the cache
};

// input [num_rows, K] -> y [num_rows, N], with contiguous rows. The input must not overlap y. A row's adapter
// adds to the output after the product (low_rank.h).
void linear(const KernelContext& context, const PackedLinear& weight, const LinearInput& input,
            std::int64_t num_rows, const Buffer& y, const LinearOutput& output = {});

// Two products in sequence, y = (accumulate: y +) second(f(first(input))), with the same bits as two calls of
// linear. `between` [num_rows, K of the second] is scratch for rows whose intermediate result has to go
// through memory.
void linear_pair(const KernelContext& context, const PackedLinear& first, Activation activation,
                 const PackedLinear& second, const LinearInput& input, std::int64_t num_rows,
                 const Buffer& between, const Buffer& y, bool accumulate = true);

// Whether products of `num_rows` rows prefetch the memory named by KernelContext::read_ahead, and when that
// works best: during all preceding products, or only during the last ones.
enum class BringsAhead { nothing, early, late };
BringsAhead brings_ahead(const KernelContext& context, std::int64_t num_rows);

// For each row, max_logit of the row of input W^T, without storing that row.
void linear_max(const KernelContext& context, const PackedLinear& weight, const LinearInput& input,
                std::span<LogitMax> largest);

// Rows `ids` of stacked matrices, each as PackedLinear::row(), into out [ids, K]; zeros for ids of other
// ranks.
void packed_rows(const KernelContext& context, const PackedLinear& weight, std::span<const std::int32_t> ids,
                 const Buffer& out, const EmbeddedIds& own = {});

// The part of a scheme's arithmetic that applies to weights packed as `type`: e4m3 inputs do not work with
// weights in 8-bit integers.
LinearArithmetic arithmetic_with(LinearType type, const LinearArithmetic& scheme);

// True if weights of this type are multiplied in 8 bits unless another dtype is requested.
bool multiplies_in_int8(DType stored);

// The LinearType that `dtype` ("auto", "float32", "bfloat16", "float16", "int8") selects for weights stored
// as `stored` on this CPU. auto: int8 if multiplies_in_int8(), otherwise bfloat16 (float32 without AVX2).
Result<LinearType> choose_linear_type(std::string_view dtype, DType stored, CpuLevel level);

// The bytes that `elements` weights, in rows of whole blocks, occupy when packed as for `auto`.
std::int64_t estimated_packed_bytes(DType stored, std::int64_t elements,
                                    CpuLevel level = detected_cpu_level());

}  // namespace pagoda
