// Activations by name, scales of scores, ALiBi slopes, and layers that share keys and values.
#include <algorithm>
#include <bit>
#include <cmath>

#include "models/reading.h"

namespace pagoda {
namespace {

// 2^-(max i / n) for i = 1 .. n, n a power of two. For other numbers of heads: the slopes of the next lower
// power, then every second of the next higher (BLOOM); or the slopes of the next higher, beginning with every
// second (MPT).
std::vector<float> slopes_of(std::int32_t num_heads, double most, bool higher_first) {
  const auto slopes = [&](std::uint32_t count) {
    std::vector<float> all;
    for (std::uint32_t i = 1; i <= count; ++i)
      all.push_back(static_cast<float>(std::exp2(-most * static_cast<double>(i) / count)));
    return all;
  };
  const auto heads = static_cast<std::uint32_t>(std::clamp(num_heads, 1, 1 << 16));
  if (std::has_single_bit(heads)) return slopes(heads);
  const std::vector<float> higher = slopes(std::bit_ceil(heads));
  std::vector<float> result;
  if (higher_first) {
    for (std::size_t i = 1; i < higher.size(); i += 2) result.push_back(higher[i]);
  } else {
    result = slopes(std::bit_floor(heads));
  }
  for (std::size_t i = 0; result.size() < heads; i += 2) result.push_back(higher[i]);
  return result;
}

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
// transformers' names; the first name of each activation is displayed. The tanh approximation of GELU is
// listed under its implementations' names.
constexpr NamedActivation kActivations[] = {{"silu", Activation::silu},
                                            {"swish", Activation::silu},
                                            {"relu", Activation::relu},
                                            {"relu2", Activation::relu2},
                                            {"gelu", Activation::gelu_erf},
                                            {"gelu_python", Activation::gelu_erf},
                                            {"gelu_new", Activation::gelu_tanh},
                                            {"gelu_fast", Activation::gelu_tanh},
                                            {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                            {"gelu_python_tanh", Activation::gelu_tanh},
                                            {"gelu_accurate", Activation::gelu_tanh}};

}  // namespace

Result<Activation> activation_named(std::string_view name) {
  const auto found = std::ranges::find(kActivations, name, &NamedActivation::name);
  if (found != std::end(kActivations)) return found->activation;
  return unimplemented(
      concat("activation '", printable(name),
             "' is not supported; supported: silu, relu, relu2, gelu, gelu_new, gelu_pytorch_tanh"));
}

std::string_view activation_name(Activation activation) {
  const auto found = std::ranges::find(kActivations, activation, &NamedActivation::activation);
  return found != std::end(kActivations) ? found->name : "silu";
}

void read_query_scale(Hyperparameters& h, DecoderConfig& decoder) {
  const float scalar = h.number("query_pre_attn_scalar", 256);
  if (!(scalar > 0)) h.fail("query_pre_attn_scalar", "a positive number");
  scale_attention(1.0f / std::sqrt(scalar), decoder);
}

void use_alibi(Hyperparameters& h, float largest_exponent, AlibiOrder order, DecoderConfig& decoder) {
  if (!std::isfinite(largest_exponent) || largest_exponent <= 0)
    return h.corrupt("the model's ALiBi has no slopes");
  each_attention(decoder, [&](AttentionConfig& attention) {
    attention.slopes = slopes_of(attention.num_heads, largest_exponent, order == AlibiOrder::higher_first);
  });
}

void share_kv(Hyperparameters& h, std::int32_t count, DecoderConfig& decoder) {
  const std::int32_t own = decoder.num_layers() - count;
  if (count < 0 || own < 1)
    return h.corrupt(concat(count, " of ", decoder.num_layers(),
                            " layers cannot read the keys and values of earlier ones"));
  const auto attention = [&](std::int32_t index) -> AttentionConfig& {
    return *decoder.layers[static_cast<std::size_t>(index)].attention();
  };
  for (std::int32_t index = own; index < decoder.num_layers(); ++index) {
    const auto has_window = [&](std::int32_t layer) { return attention(layer).sliding_window > 0; };
    std::int32_t source = own - 1;
    while (source >= 0 && has_window(source) != has_window(index)) --source;
    if (source < 0)
      return h.corrupt(
          "model config: a layer shares keys and values, and no earlier layer of its kind has any");
    attention(index).kv_layer = source;
  }
}

}  // namespace pagoda
