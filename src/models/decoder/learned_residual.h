#pragma once
// LearnedResidual: a low-rank path around a layer's mixer (LAuReL, Gemma 3n). With n = norm(x), the mixer's
// input:
//
//   x = (x + branch + n + norm(B A n)) / sqrt(2)
//
// Invariant: a row's result depends on the row alone. Every rank holds and computes all of it.
// Threads: the decoder's one caller; the work runs on the context's pool. Source: arXiv 2411.07501,
// transformers' modeling_gemma3n.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/linear.h"
#include "models/decoder_config.h"
#include "models/weights/weight_loader.h"

namespace pagoda {

class LearnedResidual {
 public:
  // The loader keeps the first error. prefix: of the layer's tensor names.
  static LearnedResidual load(const DecoderConfig& config, const LayerConfig& layer,
                              const std::string& prefix, WeightLoader& loader);

  static std::int64_t workspace_width(std::int64_t hidden, std::int64_t rank) { return 3 * hidden + rank; }

  // Computes n + norm(B A n), where n is the RMS norm of rows of x with `weight`. room: [count,
  // workspace_width()]; the result is its first [count, hidden] floats.
  void make(const KernelContext& context, const Buffer& x, const PlacedVector& weight, std::int64_t count,
            const Buffer& room) const;
  // x = (x + result of make()) / sqrt(2).
  void join(const KernelContext& context, const Buffer& made, std::int64_t count, const Buffer& x) const;

 private:
  std::int64_t hidden_ = 0;
  float eps_ = 0;
  PackedLinear down_, up_;
  PlacedVector norm_;
};

}  // namespace pagoda
