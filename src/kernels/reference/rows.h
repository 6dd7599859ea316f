#pragma once
// Row-wise ops in plain form, one row per call, in double. Ops of rows.h that need a single exact, or once
// rounded, operation per element have no separate reference form.
#include "kernels/rows.h"

namespace pagoda::reference {

void add_share(RowShape shape, float factor, const Buffer& gate, const Buffer& from, const Buffer& to,
               std::int64_t row);
void times_gates(RowShape shape, GateFunction function, std::int64_t num_gates, const Buffer& gate,
                 const Buffer& x, std::int64_t row);
void cap(std::int64_t width, double cap, float* x);
void xielu(std::int64_t width, const XieluCurve& curve, float* x);
void sparse_gate(const SparseGate& how, std::int64_t num_rows, const Buffer& gates, const Buffer& up,
                 std::int64_t row);
void recurrent_gates(const RecurrentGates& gates, float* weight, float* decay);

}  // namespace pagoda::reference
