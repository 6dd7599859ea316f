#pragma once
// LearnedResidual: a low-rank way around a layer's mixer (LAuReL, Gemma 3n). With n = norm(x), what the mixer
// reads:
//
//   x = (x + branch + n + norm(B A n)) / sqrt(2)
//
// Invariant: a row's result depends on the row alone. Every rank has all of it and does all of it. Threads:
// the decoder's one caller; the work runs on the context's pool. Source: arXiv 2411.07501, transformers'
// modeling_gemma3n.
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
  // The loader keeps the first error. prefix: of the layer's names.
  static LearnedResidual load(const DecoderConfig& config, const LayerConfig& layer,
                              const std::string& prefix, WeightLoader& loader);

  static std::int64_t workspace_width(std::int64_t hidden, std::int64_t rank) { return 3 * hidden + rank; }

  // n is an RMS norm, with `weight`, of rows of x; room: [count, workspace_width()], whose first [count,
  // hidden] is what comes out: n + norm(B A n).
  void make(const KernelContext& context, const Buffer& x, const PlacedVector& weight, std::int64_t count,
            const Buffer& room) const;
  // x = (x + what make() made) / sqrt(2).
  void join(const KernelContext& context, const Buffer& made, std::int64_t count, const Buffer& x) const;

 private:
  std::int64_t hidden_ = 0;
  float eps_ = 0;
  PackedLinear down_, up_;
  PlacedVector norm_;
};

}  // namespace pagoda
