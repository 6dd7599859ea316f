#pragma once
// PoolingStrategy: for requests for a vector without tokens: once the prompt is computed, the request gets
// the runner's vector and ends. Source: request/work.h.
#include "base/check.h"
#include "decoding/strategy.h"

namespace pagoda {

class PoolingStrategy final : public DecodingStrategy {
 public:
  void start(SequenceGroup& group) override { group.forked = true; }
  void advance(SequenceGroup& group, std::span<SampledSequence> sampled, SequenceIds&,
               std::vector<Change>& changes) override {
    CHECK(sampled.size() == 1 && sampled[0].vector != nullptr);
    vector_ = std::move(*sampled[0].vector);
    changes.push_back({.verb = Verb::free, .group = &group, .sequence = sampled[0].sequence});
  }
  void report(const SequenceGroup& group, std::span<Change> changes,
              std::vector<SequenceDelta>& out) override {
    if (!group.finished() || changes.empty()) return;
    SequenceDelta& delta = out.emplace_back();
    delta.vector = std::move(vector_);
    delta.finish_reason = changes.back().reason;
  }

 private:
  std::vector<float> vector_;
};

}  // namespace pagoda
