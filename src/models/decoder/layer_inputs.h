#pragma once
// LayerInputs: an input that each layer gets from the token itself, besides the residual stream (Gemma 4 E2B
// and E4B):
//
//   input = (norm(projection_l(embedded) / sqrt(hidden)) + table_l[token] * sqrt(size)) / sqrt(2)
//   y     = norm(output_l(f(gate_l(x)) * input)), which is added to x, or to other streams
//
// `embedded` is the first layer's x. Each layer's input is computed when needed, since all of them together
// would be several times the size of the residual stream.
// Invariant: a row's result depends on the row alone. Every rank holds and computes all of it.
// Threads: the decoder's one caller. Source: transformers' modeling_gemma4.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "models/decoder_config.h"
#include "models/weights/weight_loader.h"

namespace pagoda {

class LayerInputs {
 public:
  // The loader keeps the first error.
  static LayerInputs load(const DecoderConfig& config, WeightLoader& loader);

  // Floats per row.
  std::int64_t workspace_width() const { return 3 * std::int64_t{size_} + 2 * std::int64_t{hidden_}; }

  // Returns y for rows of x whose tokens are `ids`; `embedded` has the same rows. room: [rows,
  // workspace_width()]; y is in it.
  Buffer make(const KernelContext& context, std::int32_t layer, std::span<const std::int32_t> ids,
              const Buffer& embedded, const Buffer& x, const Buffer& room);

 private:
  struct Layer {
    PackedLinear projection, gate, output;
    PlacedVector branch_norm;
  };

  std::int32_t size_ = 0, hidden_ = 0;
  Activation activation_ = Activation::gelu_tanh;
  float eps_ = 0;
  TensorView table_;       // [tokens * layers, size]
  std::int32_t rows_ = 0;  // tokens in the table
  PlacedVector norm_;
  std::vector<Layer> layers_;
  std::vector<std::int32_t> places_;
};

}  // namespace pagoda
