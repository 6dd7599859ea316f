// Goal: products in 8 bits lose no more, or hardly more, than llama.cpp's do of the same weights, whatever
// the activations. Method: both against sums in double precision; GGML multiplies the file's own weights with
// activations rounded to 8 bits, with one scale for 32 of them or, beside blocks of 256, for 256 (ggml-cpu's
// quants.c).
#include <gtest/gtest.h>

#include "kernels/linear.h"
#include "kernels/reference/quantize.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

constexpr std::int64_t kQualityRows = 12, kQualityDepth = 1024, kQualityOutputs = 48;

enum class Spread { normal, massive_channels, spikes_of_gates };

std::vector<float> activations(Spread shape) {
  std::vector<float> x = random_floats(11, kQualityRows * kQualityDepth),
                     gate = random_floats(12, kQualityRows * kQualityDepth);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t channel = i % kQualityDepth;
    if (shape == Spread::massive_channels && (channel == 7 || channel == 700)) x[i] = 60 + x[i];
    if (shape == Spread::spikes_of_gates) x[i] *= gate[i] * gate[i] * (channel % 64 == 5 ? 20.0f : 1.0f);
  }
  return x;
}

int ggml_group(DType dtype) { return dtype_info(dtype).block_elements == 256 ? 256 : 32; }

// How much more of the products may be lost than by GGML's own arithmetic. Of 32 weights of NVFP4, which have
// two scales, 8 bits hold some only nearly.
double allowed(DType dtype) { return dtype == DType::nvfp4 ? 1.25 : 1.05; }

std::vector<double> products(const std::vector<float>& x, const std::vector<float>& weights) {
  std::vector<double> y(kQualityRows * kQualityOutputs);
  for (std::size_t row = 0; row < kQualityRows; ++row)
    for (std::size_t n = 0; n < kQualityOutputs; ++n)
      for (std::size_t i = 0; i < kQualityDepth; ++i)
        y[row * kQualityOutputs + n] +=
            static_cast<double>(x[row * kQualityDepth + i]) * weights[n * kQualityDepth + i];
  return y;
}

std::vector<float> rounded(std::vector<float> x, int group) {
  for (std::size_t at = 0; at < x.size(); at += static_cast<std::size_t>(group)) {
    std::int8_t q[256];
    const float scale = reference::quantize_group(x.data() + at, group, q);
    for (std::size_t i = 0; i < static_cast<std::size_t>(group); ++i)
      x[at + i] = scale * static_cast<float>(q[i]);
  }
  return x;
}

template <class Numbers>
double lost_in_product(const Numbers& y, const std::vector<double>& exact) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (y[i] - exact[i]) * (y[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

TEST(LinearQuality, EightBitsLoseNoMoreThanLlamaCpp) {
  for (const DType dtype : weight_types()) {
    if (!multiplies_in_int8(dtype)) continue;
    const std::vector<std::byte> bytes = random_weights(3, dtype, kQualityOutputs * kQualityDepth);
    std::vector<float> weights(kQualityOutputs * kQualityDepth);
    dequantize(dtype, bytes.data(), kQualityOutputs * kQualityDepth, weights.data());
    const TensorView view = {dtype, {kQualityOutputs, kQualityDepth}, bytes.data()};
    for (const Spread shape : {Spread::normal, Spread::massive_channels, Spread::spikes_of_gates}) {
      const std::vector<float> x = activations(shape);
      const std::vector<double> exact = products(x, weights);
      const double ggml = lost_in_product(products(rounded(x, ggml_group(dtype)), weights), exact);
      for (const CpuLevel level : levels_here()) {
        SCOPED_TRACE(::testing::Message() << dtype_info(dtype).name << " activations "
                                          << static_cast<int>(shape) << " " << cpu_level_name(level));
        const KernelContext context{.level = level};
        auto packed = PackedLinear::pack(context, LinearType::int8, std::span(&view, 1));
        ASSERT_TRUE(packed.has_value());
        std::vector<float> y(kQualityRows * kQualityOutputs);
        linear(context, *packed, LinearInput::rows(x.data(), kQualityDepth), kQualityRows,
               Buffer::of(y.data(), packed->n()));
        EXPECT_LE(lost_in_product(y, exact), allowed(dtype) * ggml);
      }
    }
  }
}

}  // namespace
}  // namespace pagoda
