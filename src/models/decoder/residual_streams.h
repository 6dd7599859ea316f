#pragma once
// ResidualStreams: several residual streams, of which layers compute only the first (AltUp, Gemma 3n):
//     x[i] = P_i x[0], scaled to the magnitude of x[0]                                  before the layers
//     p[i] = x[i] + sum over k of predict_ik(r(x[0])) x[k],    y = layer(p[0])
//     x[i] = p[i] + (1 + correct_i(r(y))) (y - p[0]),          r(x) = tanh(router norm(x) / hidden)
//     x[0] = mean of x[0] and Q_i x[i], scaled to the magnitude of x[0]                 after them
// x[0] is the decoder's residual stream; the others, and p[0] while a layer computes, are stored here. A
// layer's own input (layer_inputs.h) is added only to the others. A row's result depends on the row alone;
// every rank computes all.
// Threads: the decoder's one caller. Source: arXiv 2301.13310, transformers' modeling_gemma3n.
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

  // Floats of workspace for batches of up to `rows` rows in chunks of `chunk_rows`; pass the workspace to
  // place().
  std::int64_t workspace_size(std::int64_t rows, std::int64_t chunk_rows) const;
  void place(const Buffer& workspace, std::int64_t rows, std::int64_t chunk_rows);

  // Each works on rows [first, first + count) of a chunk; x begins at the first of them.
  void begin(const KernelContext& context, std::int64_t first, std::int64_t count, const Buffer& x);
  void predict(const KernelContext& context, std::size_t layer, std::int64_t first, std::int64_t count,
               const Buffer& x);
  void correct(const KernelContext& context, std::size_t layer, std::int64_t first, std::int64_t count,
               const Buffer& x);
  // Returns the layer's own input, read from x; valid until the next call.
  Buffer scaled(const KernelContext& context, std::size_t layer, std::int64_t count, const Buffer& x);
  void add_to_others(const KernelContext& context, std::int64_t first, std::int64_t count, const Buffer& y);
  void end(const KernelContext& context, std::int64_t first, std::int64_t count, const Buffer& x);

  // Moves these rows to the front.
  void gather(const KernelContext& context, std::span<const std::int32_t> rows);

 private:
  struct Layer {
    PackedLinear router;
    PlacedVector router_norm;
    PlacedVector predict;  // [stream * streams, streams]
    PlacedVector correct;  // [streams, streams]
    PlacedVector scale;    // factors of the layer's input; empty: none
  };

  Buffer route(const KernelContext& context, const Layer& layer, std::int64_t count, const Buffer& x);
  std::int64_t others_width() const { return (streams_ - 1) * hidden_; }
  StreamShape shape(std::int64_t count) const { return {count, hidden_, streams_}; }

  std::int64_t streams_ = 0, hidden_ = 0;
  float eps_ = 0;
  std::vector<PackedLinear> enter_, leave_;  // P_i, Q_i of the other streams
  std::vector<Layer> layers_;

  Buffer others_;     // [rows, streams - 1, hidden]
  Buffer predicted_;  // p[0]: [rows, hidden]
  Buffer between_;    // [chunk, hidden]
  Buffer modes_;      // [chunk, streams]
};

}  // namespace pagoda
