#pragma once
// The mixing of several residual streams around a layer that computes the first alone (AltUp, Gemma 3n). x is
// the first stream, [rows, width]; others [rows, (streams - 1) * width]; modes [rows, streams] are what the
// layer's router makes of a row. Not here: the router, the products that begin and end the streams. A row's
// result depends on the row alone. Source: arXiv 2301.13310, transformers' modeling_gemma3n.
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/buffer.h"

namespace pagoda {

inline constexpr std::int64_t kMaxResidualStreams = 8;

struct StreamShape {
  std::int64_t num_rows = 0, width = 0, streams = 0;
};

// modes = tanh(modes / width)
void turn_modes(const KernelContext& context, const StreamShape& shape, const Buffer& modes);

// to = from, scaled to the root mean square of `like`. added: to += that, divided by `streams` if it is the
// last of them.
enum class StreamSum { none, added, added_last };
void match_magnitude(const KernelContext& context, const StreamShape& shape, const Buffer& from,
                     const Buffer& like, StreamSum sum, const Buffer& to);

// Each stream i becomes x[i] + sum over k of p_ik x[k], p_ik = sum over j of factors[i, k, j] * modes[j]; and
// the first is written to `predicted`, too. factors [streams, streams, streams].
void predict_streams(const KernelContext& context, const StreamShape& shape, const float* factors,
                     const Buffer& modes, const Buffer& x, const Buffer& others, const Buffer& predicted);

// Behind the layer, which made x of predicted: each stream i becomes p[i] + (1 + sum over k of factors[i, k]
// * modes[k]) * (x - predicted). factors [streams, streams].
void correct_streams(const KernelContext& context, const StreamShape& shape, const float* factors,
                     const Buffer& modes, const Buffer& predicted, const Buffer& x, const Buffer& others);

// Each of the other streams += y.
void add_to_streams(const KernelContext& context, const StreamShape& shape, const Buffer& y,
                    const Buffer& others);

}  // namespace pagoda
