#pragma once
// The ops of the fast backend. Contracts as in the public headers.
#include <functional>
#include <span>
#include <vector>

#include "kernels/linear.h"
#include "kernels/mixture.h"
#include "kernels/paged_attention.h"
#include "kernels/weight_format.h"

namespace pagoda::cpu {

// The panel format of each of `weights`.
std::vector<PackedFormat> choose_panels(CpuLevel level, const PackedLinear::Storage& storage,
                                        std::span<const TensorView> weights);
// Fills storage.segments and storage.runs and returns the bytes they need.
std::int64_t plan_panels(PackedLinear::Storage& storage);
// Packs into storage.own, which must be large enough. Reorders storage.bias to the order of the strips, and
// sets storage.keeps_values if no value was rounded. `on_packed` (may be empty) is called with rows once they
// are packed.
void pack(const KernelContext& context, std::span<const TensorView> weights, PackedLinear::Storage& storage,
          const std::function<void(const TensorView&)>& on_packed);
// PackedLinear::row().
void unpack_row(const PackedLinear::Storage& storage, std::int64_t row, float* out);
void linear(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, float* y, const LinearOutput& output);
// True if linear_pair can write the first product's results straight into the second one's input: whole
// groups of 64, each prepared independently.
bool can_pair(const PackedLinear::Storage& first, const PackedLinear::Storage& second);
void linear_pair(const KernelContext& context, const PackedLinear::Storage& first, Activation activation,
                 const PackedLinear::Storage& second, const LinearInput& input, std::int64_t num_rows,
                 float* y);
void linear_max(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
                std::span<LogitMax> largest);

void grouped_pair(const KernelContext& context, std::span<const PackedLinear> first, Activation activation,
                  std::span<const PackedLinear> second, const LinearInput& input, std::int64_t num_rows,
                  const RowGroups& groups, float* out);

void paged_attention(const KernelContext& context, const PagedAttentionArgs& args);

}  // namespace pagoda::cpu
