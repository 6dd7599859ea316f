#pragma once
// Linear: y = x W^T (+ bias) with W packed once at load for the instruction that will read it.
//   M rows of x, K input features, N output features; x, y float32 row-major.
// Source: reference/ holds the plain form; layouts in cpu/README.md.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/backend.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// The arithmetic of a packed weight.
enum class LinearType {
  float32,   // f32 weights, f32 accumulation
  bfloat16,  // bf16 weights and activations, f32 accumulation
  int8,      // weights int8 with one scale per output, activations int8 with one per token and 64 inputs
  grouped,   // 4..8-bit groups as stored in the file (Q4_0 .. Q8_0, Q6_K), activations int8 per token and 32
             // inputs
};

class PackedLinear {
 public:
  PackedLinear();
  ~PackedLinear();
  PackedLinear(PackedLinear&&) noexcept;
  PackedLinear& operator=(PackedLinear&&) noexcept;

  // Packs the rows of `weights`, one matrix below the other (fused QKV, gate|up); all have K columns.
  // `bias` is empty or has N entries. invalid_argument: shapes that do not fit together.
  static Result<PackedLinear> pack(const KernelContext& context, LinearType type,
                                   std::span<const TensorView> weights, std::vector<float> bias = {});

  std::int64_t n() const;
  std::int64_t k() const;
  std::int64_t packed_bytes() const;
  LinearType type() const;

  struct Storage;  // kernels/ only
  const Storage& storage() const { return *storage_; }

 private:
  std::unique_ptr<Storage> storage_;
};

enum class LinearOutput { overwrite, accumulate };  // accumulate: y += (residual connection)

// x [num_rows, K] -> y [num_rows, N]. x and y must not overlap.
void linear(const KernelContext& context, const PackedLinear& weight, const float* x, std::int64_t num_rows,
            float* y, LinearOutput output = LinearOutput::overwrite);

// The LinearType that `dtype` ("auto", "float32", "bfloat16", "int8") means for weights stored as
// `stored` on this CPU. auto: bfloat16 for plain types where the CPU has it, grouped for quantised ones.
// int8: grouped for quantised ones too, whose values would only lose by another rounding.
Result<LinearType> choose_linear_type(std::string_view dtype, DType stored, CpuLevel level);

}  // namespace pagoda
