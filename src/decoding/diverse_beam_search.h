#pragma once
// DiverseBeamSearchStrategy: beams in groups of width / num_beam_groups. In every step the groups choose one
// after another, and a token loses diversity_penalty for each time that an earlier group has chosen it in
// this step. The losses stay with the beam and only steer the search: scores and log-probabilities of the
// answer are the model's own. Each group contributes its own best answers. Source: Vijayakumar et al.,
// Diverse Beam Search (AAAI'18), Hamming diversity; names as in transformers.
#include <unordered_map>

#include "decoding/beam_search.h"

namespace pagoda {

class DiverseBeamSearchStrategy final : public BeamSearchStrategy {
 public:
  using BeamSearchStrategy::BeamSearchStrategy;

 protected:
  std::vector<Extension> choose(const SamplingParams& sampling, std::vector<Extension> open) const override {
    const std::int64_t share = sampling.width() / sampling.num_beam_groups;
    std::unordered_map<TokenId, int> times_chosen;
    std::vector<Extension> chosen;
    for (std::int32_t beam_group = 0; beam_group < sampling.num_beam_groups; ++beam_group) {
      std::vector<Extension> own;
      for (Extension extension : open) {
        if (extension.beam_group != beam_group) continue;
        const auto it = times_chosen.find(extension.candidate->token);
        if (it != times_chosen.end())
          extension.handicap -= static_cast<double>(sampling.diversity_penalty) * it->second;
        own.push_back(extension);
      }
      keep_best(own, share);
      for (const Extension& extension : own) ++times_chosen[extension.candidate->token];
      chosen.insert(chosen.end(), own.begin(), own.end());
    }
    return chosen;
  }
};

}  // namespace pagoda
