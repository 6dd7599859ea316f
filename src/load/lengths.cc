#include "load/lengths.h"

#include <algorithm>
#include <cmath>

namespace pagoda {
namespace {

constexpr int kMaxRedraws = 1000;  // a bound for max_model_len far below what the shapes give

struct Shape {
  double prompt_mean, prompt_sigma;  // of the log-normal before bounds
  double output_mean, output_shape;  // of the gamma before bounds
  std::int32_t min_prompt, min_output;
};

// Means solved by 2,000,000 draws through the same bounds.
constexpr Shape kShareGpt{225.62, 1.6, 339.63, 2.0, 4, 4};
constexpr Shape kAlpaca{19.2815, 0.55, 58.447, 0.9, 4, 1};

std::int32_t whole(double tokens) {
  return static_cast<std::int32_t>(std::clamp(std::round(tokens), 1.0, 1e9));
}

RequestLengths draw(const Shape& shape, Draws& draws, std::int32_t max_model_len) {
  const double mu = std::log(shape.prompt_mean) - shape.prompt_sigma * shape.prompt_sigma / 2;
  for (int i = 0; i < kMaxRedraws; ++i) {
    const std::int32_t prompt = whole(std::exp(mu + shape.prompt_sigma * draws.normal()));
    const std::int32_t output =
        whole(draws.gamma(shape.output_shape) * shape.output_mean / shape.output_shape);
    if (prompt >= shape.min_prompt && output >= shape.min_output &&
        std::int64_t{prompt} + output <= max_model_len)
      return {prompt, output};
  }
  return {std::max(1, max_model_len / 2), std::max(1, max_model_len - max_model_len / 2)};
}

}  // namespace

RequestLengths draw_sharegpt_lengths(Draws& draws, std::int32_t max_model_len) {
  return draw(kShareGpt, draws, max_model_len);
}

RequestLengths draw_alpaca_lengths(Draws& draws, std::int32_t max_model_len) {
  return draw(kAlpaca, draws, max_model_len);
}

RequestLengths draw_uniform_lengths(Draws& draws, TokenRange input, TokenRange output) {
  const auto prompt = static_cast<std::int32_t>(draws.between(input.low, input.high));
  return {prompt, static_cast<std::int32_t>(draws.between(output.low, output.high))};
}

}  // namespace pagoda
