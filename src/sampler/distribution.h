#pragma once
// Distribution: the tokens and weights that remain of one row of logits after temperature, min_p, top_k,
// top_p and typical_p. Draws by inverse CDF over tokens in ascending order; a draw depends only on the
// logits, the parameters and the random number.
//   plain   nothing was cut: one weight per token of the vocabulary, with sums of blocks
//   cut     only the surviving tokens, ascending, with their weights
// Source of meaning and order: vLLM's v1 sampler; for typical_p, which vLLM lacks, transformers (typical.cc).
// All logits equal to the k-th largest survive top_k.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "request/sampling_params.h"

namespace pagoda {

// Temperatures below kGreedyTemperature mean greedy; from there up to kMinTemperature they are raised to
// kMinTemperature (vLLM).
inline constexpr float kGreedyTemperature = 1e-5f;
inline constexpr float kMinTemperature = 1e-2f;

class Distribution {
 public:
  // Replaces the content; buffers are reused. Requires temperature >= kGreedyTemperature. Returns false if no
  // logit is above -infinity; then draws are meaningless. `open`: for each block of kMaximaBlock logits
  // (vector_math.h), 0 if all are known to be -infinity, otherwise 1; empty: unknown.
  bool assign(CpuLevel level, std::span<const float> logits, const SamplingParams& params,
              std::span<const std::uint8_t> open = {});

  // The token at `uniform` in [0, 1).
  TokenId draw(double uniform) const;

  // Every surviving token with its probability, ascending by token.
  std::vector<std::pair<TokenId, double>> probabilities() const;

 private:
  struct Entry {
    TokenId token;
    float logit;
    float weight;
  };
  void maxima_of_open(CpuLevel level, std::span<const float> logits, std::span<const std::uint8_t> open);
  void weigh_all(CpuLevel level, std::span<const float> logits, float maximum, float scale);
  float top_k_threshold(std::span<const float> logits, std::int32_t k);
  void keep_from(std::span<const float> logits, float threshold);
  void keep_nucleus(double mass);
  void nucleus_of_all(std::span<const float> logits, float maximum, float temperature, double mass);
  void keep_all(std::span<const float> logits);
  void keep_typical(float maximum, float temperature, double mass);
  TokenId draw_in_block(std::size_t start, double target) const;

  bool plain_ = true;
  double total_ = 0;
  std::vector<float> weights_, block_sums_;  // whole vocabulary
  std::vector<float> maxima_;                // maxima of blocks of logits
  std::vector<Entry> kept_;                  // ascending by token
  std::vector<Entry> ranked_;                // scratch of keep_nucleus
  std::vector<double> bucket_sums_;
  std::vector<std::pair<double, double>> distances_;  // scratch of keep_typical: distance, weight
  std::vector<float> values_;
};

}  // namespace pagoda
