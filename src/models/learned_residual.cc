#include "models/learned_residual.h"

#include <cmath>

#include "base/check.h"
#include "kernels/elementwise.h"
#include "kernels/tiles.h"

namespace pagoda {

LearnedResidual LearnedResidual::load(const DecoderConfig& config, const LayerConfig& layer,
                                      const std::string& prefix, WeightLoader& loader) {
  const WeightNames& names = loader.names();
  LearnedResidual residual;
  residual.hidden_ = config.hidden_size;
  residual.eps_ = layer.norm.eps;
  residual.down_ = loader.linear(prefix + names.residual_down, layer.learned_residual, config.hidden_size);
  residual.up_ = loader.linear(prefix + names.residual_up, config.hidden_size, layer.learned_residual);
  residual.norm_ = loader.norm_vector(prefix + names.residual_norm, config.hidden_size, layer.norm);
  return residual;
}

void LearnedResidual::make(const KernelContext& context, const LinearInput& input, std::int64_t count,
                           float* room) const {
  CHECK(input.op == LinearInput::Op::rms_norm);
  float* const normed = room;
  float* const low = normed + count * hidden_;
  float* const whole = low + count * down_.n();
  float* const around = whole + count * hidden_;
  rms_norm(context, input.x, count, hidden_, input.weight, input.eps, normed);
  linear(context, down_, LinearInput::rows(normed, hidden_), count, low);
  linear(context, up_, LinearInput::rows(low, down_.n()), count, whole);
  rms_norm(context, whole, count, hidden_, norm_.data(), eps_, around);
  for_tiles(context, count, [&](std::int64_t row, int) {
    for (std::int64_t i = row * hidden_; i < (row + 1) * hidden_; ++i) normed[i] += around[i];
  });
}

void LearnedResidual::join(const KernelContext& context, const float* made, std::int64_t count,
                           float* x) const {
  const float half = std::sqrt(0.5f);
  for_tiles(context, count, [&](std::int64_t row, int) {
    for (std::int64_t i = row * hidden_; i < (row + 1) * hidden_; ++i) x[i] = (x[i] + made[i]) * half;
  });
}

}  // namespace pagoda
