#pragma once
// The ops in their plain form: one loop per index of the formula, double accumulators, no tricks. The fast
// paths are tested against them. Contracts as in the public headers.
#include "kernels/attention_input.h"
#include "kernels/causal_conv.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/linear_attention.h"
#include "kernels/logits.h"
#include "kernels/mixture.h"
#include "kernels/paged_attention.h"
#include "kernels/selective_scan.h"

namespace pagoda::reference {

void rms_norm(const float* x, std::int64_t width, const float* weight, float eps, float* out);  // one row
void layer_norm(const float* x, std::int64_t width, const float* weight, const float* bias, float eps,
                float* out);
float activation(Activation activation, float x);
float gate_factor(Activation activation, float up);  // the factor of the activated gate
void rope(float* x, std::int32_t num_heads, std::int32_t head_size, std::int32_t rotary_size,
          const float* cos_sin);
void heads_to_unit(float* x, std::int32_t num_heads, std::int32_t head_size, float eps, float scale);
void gated_rms_norm(const GatedNorm& norm, float* x, const float* gate);
void times_sigmoid(float* x, const float* gate, std::int64_t width);

// Packs weights as float32 rows, rounded as the arithmetic of storage.type rounds them.
void pack(const KernelContext& context, std::span<const TensorView> weights, PackedLinear::Storage& storage);
void linear(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
            std::int64_t num_rows, float* y, const LinearOutput& output);
void input_row(const LinearInput& input, std::int64_t row, std::int64_t k, float* out);
void linear_max(const KernelContext& context, const PackedLinear::Storage& weight, const LinearInput& input,
                std::span<LogitMax> largest);

void route(const RoutingRule& rule, const float* logits, std::span<const float> correction,
           std::int32_t* experts, float* weights);  // one row
// Computes row by row.
void grouped_pair(const KernelContext& context, std::span<const PackedLinear> first, Activation activation,
                  std::span<const PackedLinear> second, const LinearInput& input, const RowGroups& groups,
                  float* out);

// Writes the op's sums on one rank to y, computing expert by expert for each row.
void mixture(const KernelContext& context, const MixtureArgs& args, const Buffer& logits,
             const LinearInput& input, std::int64_t num_rows, const Buffer& y);

// Finishes row `index` of the product: norms, clipping, rotation and scale of its heads.
void finish_attention_input(const AttentionInputArgs& args, std::int64_t index, float* row);

void write_kv(const PagedAttentionArgs& args, const AttentionSequence& sequence, std::int32_t kv_head);
void attend(const PagedAttentionArgs& args, const AttentionSequence& sequence, std::int32_t row,
            std::int32_t query_head);

void linear_attention(const LinearAttentionArgs& args, const StateSequence& sequence, std::int32_t head);
// Channels [begin, end) of one sequence.
void causal_conv(const CausalConvArgs& args, const StateSequence& sequence, std::int64_t begin,
                 std::int64_t end);
void selective_scan(const SelectiveScanArgs& args, const StateSequence& sequence, std::int64_t begin,
                    std::int64_t end);

LogitMax max_logit(std::span<const float> logits);
float log_sum_exp(std::span<const float> logits);
std::vector<LogitMax> top_logits(std::span<const float> logits, std::int32_t k);
std::int32_t logit_rank(std::span<const float> logits, float value);

}  // namespace pagoda::reference
