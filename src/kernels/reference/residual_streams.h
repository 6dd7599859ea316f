#pragma once
// The mixing of residual streams in plain form, one row per call, in double.
#include "kernels/residual_streams.h"

namespace pagoda::reference {

void match_magnitude(const StreamShape& shape, const Buffer& from, const Buffer& like, StreamSum sum,
                     const Buffer& to, std::int64_t row);
void predict_streams(const StreamShape& shape, const float* factors, const Buffer& modes, const Buffer& x,
                     const Buffer& others, const Buffer& predicted, std::int64_t row);
void correct_streams(const StreamShape& shape, const float* factors, const Buffer& modes,
                     const Buffer& predicted, const Buffer& x, const Buffer& others, std::int64_t row);

}  // namespace pagoda::reference
