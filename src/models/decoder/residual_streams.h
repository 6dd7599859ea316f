#pragma once
// ResidualStreams: a residual stream of several, of which layers compute the first alone (AltUp, Gemma 3n):
//     x[i] = P_i x[0], scaled to the magnitude of x[0]                                  before the layers
//     p[i] = x[i] + sum over k of predict_ik(r(x[0])) x[k],    y = layer(p[0])
//     x[i] = p[i] + (1 + correct_i(r(y))) (y - p[0]),          r(x) = tanh(router norm(x) / hidden)
//     x[0] = mean of x[0] and Q_i x[i], scaled to the magnitude of x[0]                 behind them
// x[0] is the decoder's residual stream; the others, and p[0] while a layer computes, are kept here. A
// layer's own input (layer_inputs.h) goes to the others alone. A row's result depends on the row alone; every
// rank does all. Threads: the decoder's one caller. Source: arXiv 2301.13310, transformers' modeling_gemma3n.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "kernels/residual_streams.h"
#include "models/decoder_config.h"
#include "models/weights/weight_loader.h"

namespace pagoda {

class ResidualStreams {
 public:
  // The loader keeps the first error.
  static ResidualStreams load(const DecoderConfig& config, WeightLoader& loader);

  // Floats that it needs for batches of so many rows, in chunks of so many; place() gives them.
  std::int64_t workspace_size(std::int64_t rows, std::int64_t chunk_rows) const;
  void place(const Buffer& workspace, std::int64_t rows, std::int64_t chunk_rows);

  // Each on rows [first, first + count) of a chunk; x is that of the first of them.
  void begin(const KernelContext& context, std::int64_t first, std::int64_t count, const Buffer& x);
  void predict(const KernelContext& context, std::size_t layer, std::int64_t first, std::int64_t count,
               const Buffer& x);
  void correct(const KernelContext& context, std::size_t layer, std::int64_t first, std::int64_t count,
               const Buffer& x);
  // The layer's input, read from x; valid until the next call.
  Buffer scaled(const KernelContext& context, std::size_t layer, std::int64_t count, const Buffer& x);
  void add_to_others(const KernelContext& context, std::int64_t first, std::int64_t count, const Buffer& y);
  void end(const KernelContext& context, std::int64_t first, std::int64_t count, const Buffer& x);

  // These rows move to the front.
  void gather(const KernelContext& context, std::span<const std::int32_t> rows);

 private:
  struct Layer {
    PackedLinear router;
    PlacedVector router_norm;
    PlacedVector predict;  // [stream * streams, streams]
    PlacedVector correct;  // [streams, streams]
    PlacedVector scale;    // factors of its input; empty: none
  };

  Buffer route(const KernelContext& context, const Layer& layer, std::int64_t count, const Buffer& x);
  std::int64_t others_width() const { return (streams_ - 1) * hidden_; }
  StreamShape shape(std::int64_t count) const { return {count, hidden_, streams_}; }

  std::int64_t streams_ = 0, hidden_ = 0;
  float eps_ = 0;
  std::vector<PackedLinear> enter_, leave_;  // P_i, Q_i of the others
  std::vector<Layer> layers_;

  Buffer others_;     // [rows, streams - 1, hidden]
  Buffer predicted_;  // p[0]: [rows, hidden]
  Buffer between_;    // [chunk, hidden]
  Buffer modes_;      // [chunk, streams]
};

}  // namespace pagoda
