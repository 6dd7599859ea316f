#include "models/decoder/learned_residual.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/rows.h"

namespace pagoda {

LearnedResidual LearnedResidual::load(const DecoderConfig& config, const LayerConfig& layer,
                                      const std::string& prefix, WeightLoader& loader) {
  const WeightNames& names = loader.names();
  LearnedResidual residual;
  residual.hidden_ = config.hidden_size;
  residual.eps_ = layer.norm.eps;
  residual.down_ = loader.linear(prefix + names.residual_down, layer.learned_residual, config.hidden_size);
  residual.up_ = loader.linear(prefix + names.residual_up, config.hidden_size, layer.learned_residual);
  residual.norm_ =
      loader.place(loader.norm_vector(prefix + names.residual_norm, config.hidden_size, layer.norm));
  return residual;
}

void LearnedResidual::make(const KernelContext& context, const Buffer& x, const PlacedVector& weight,
                           std::int64_t count, const Buffer& room) const {
  const Buffer normed = room.with_stride(hidden_), low = normed.at(count).with_stride(down_.n()),
               whole = low.at(count).with_stride(hidden_), around = whole.at(count);
  rms_norm(context, x, count, hidden_, weight.data(), eps_, normed);
  linear(context, down_, LinearInput::rows(normed), count, low);
  linear(context, up_, LinearInput::rows(low), count, whole);
  rms_norm(context, whole, count, hidden_, norm_.data(), eps_, around);
  add_rows(context, {count, hidden_}, 1, around, normed);
}

void LearnedResidual::join(const KernelContext& context, const Buffer& made, std::int64_t count,
                           const Buffer& x) const {
  join_rows(context, {count, hidden_}, made.with_stride(hidden_), std::sqrt(0.5f), x);
}

}  // namespace pagoda
