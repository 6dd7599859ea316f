#pragma once
// LayerInputs: what each layer gets of the token itself, beside the residual stream (Gemma 4 E2B and E4B):
//
//   input = (norm(projection_l(embedded) / sqrt(hidden)) + table_l[token] * sqrt(size)) / sqrt(2)
//   y     = norm(output_l(f(gate_l(x)) * input)), which is added to x, or to other streams
//
// `embedded` is x as the first layer sees it. A layer's input is made when it is needed: all of them together
// would be several times the residual stream. Invariant: a row's result depends on the row alone. Every rank
// has all of it and does all of it. Threads: the decoder's one caller. Source: transformers' modeling_gemma4.
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

  std::int64_t workspace_width() const {
    return 3 * std::int64_t{size_} + 2 * std::int64_t{hidden_};
  }  // floats for a row

  // y of rows of x, whose tokens are `ids`; `embedded` are the same rows. room: [rows, workspace_width()], in
  // which y is.
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
  std::int32_t rows_ = 0;  // tokens of the table
  PlacedVector norm_;
  std::vector<Layer> layers_;
  std::vector<std::int32_t> places_;
};

}  // namespace pagoda
