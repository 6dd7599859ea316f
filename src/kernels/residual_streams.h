#pragma once
// Mixes several residual streams around a layer that computes only the first one (AltUp, Gemma 3n). x is the
// first stream, [rows, width]; others is [rows, (streams - 1) * width]; modes [rows, streams] is the output
// of the layer's router. Not here: the router, and the products that begin and end the streams. A row's
// result depends on that row alone. Source: arXiv 2301.13310, transformers' modeling_gemma3n.
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

// to = from, scaled to the root mean square of `like`. added: to += the scaled `from`; added_last: then also
// divides by `streams`.
enum class StreamSum { none, added, added_last };
void match_magnitude(const KernelContext& context, const StreamShape& shape, const Buffer& from,
                     const Buffer& like, StreamSum sum, const Buffer& to);

// Each stream i becomes x[i] + sum over k of p_ik x[k], where p_ik = sum over j of factors[i, k, j] *
// modes[j]. The first stream is also written to `predicted`. factors [streams, streams, streams].
void predict_streams(const KernelContext& context, const StreamShape& shape, const float* factors,
                     const Buffer& modes, const Buffer& x, const Buffer& others, const Buffer& predicted);

// After the layer, which computed x from predicted: each stream i becomes p[i] + (1 + sum over k of
// factors[i, k] * modes[k]) * (x - predicted). factors [streams, streams].
void correct_streams(const KernelContext& context, const StreamShape& shape, const float* factors,
                     const Buffer& modes, const Buffer& predicted, const Buffer& x, const Buffer& others);

// Each of the other streams += y.
void add_to_streams(const KernelContext& context, const StreamShape& shape, const Buffer& y,
                    const Buffer& others);

}  // namespace pagoda
