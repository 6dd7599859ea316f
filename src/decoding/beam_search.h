#pragma once
// BeamSearchStrategy: beam search by fork, append and free (PagedAttention §4.4, Fig. 9). Every step takes
// the 2k most likely next tokens of each of the k live beams. Those that end a sequence complete an answer;
// the k best of the rest continue: the best continuation of a beam in place, its others as forks; beams
// without one are dropped. Complete answers are stored here, so a finished beam costs no KV memory. At the
// end, complete and live beams are ranked by score = cumulative log-probability / length^length_penalty; the
// best n of the top k are the answer. The length includes the prompt but not the end of sequence. Another
// search is a subclass with its own choose(), e.g. diverse_beam_search.h. Source of the rules: vLLM's beam
// search; early_stopping as vLLM's engine had it.
#include "decoding/strategy.h"

namespace pagoda {

class BeamSearchStrategy : public DecodingStrategy {
 public:
  explicit BeamSearchStrategy(std::int32_t max_model_len) : max_model_len_(max_model_len) {}
  void start(SequenceGroup& group) override;
  void advance(SequenceGroup& group, std::span<SampledSequence> sampled, SequenceIds& ids,
               std::vector<Change>& changes) override;
  void report(const SequenceGroup& group, std::span<Change> changes,
              std::vector<SequenceDelta>& out) override;

 protected:
  // A beam extended by one token. Until the first fork, all beams are the prompt's single sequence.
  struct Extension {
    std::size_t parent = 0;  // index of the beam, best first
    const Candidate* candidate = nullptr;
    double cumulative = 0;  // log-probability
    std::int32_t beam_group = 0;
    double handicap = 0;  // added to the log-probability for ordering; set by choose(), kept with the beam
  };
  // Keeps the best `count` of `open` by log-probability plus handicap; ties keep the order of parent and
  // candidate.
  static void keep_best(std::vector<Extension>& open, std::int64_t count);
  // Returns the extensions of `open` (ordered by parent and candidate) that continue: at most the beam width.
  virtual std::vector<Extension> choose(const SamplingParams& sampling, std::vector<Extension> open) const;

 private:
  struct Beam {
    SequenceId id{};
    std::int32_t beam_group = 0;
    double handicap = 0;
  };
  struct Answer {
    SequenceDelta delta;
    double score = 0;
    std::int32_t beam_group = 0;
    std::int64_t order = 0;  // order of completion; breaks ties
  };
  static double score_of(const SamplingParams& sampling, double cumulative, std::int32_t length);
  Answer make_answer(const SequenceGroup& group, const Sequence& parent, const SequenceResult& result,
                     const Extension& extension, FinishReason reason);
  bool decided(const SequenceGroup& group, std::span<const Extension> live, std::int32_t length) const;
  void fork_and_append(SequenceGroup& group, std::span<Extension> chosen,
                       std::span<const SampledSequence> parents, SequenceIds& ids,
                       std::vector<Change>& changes);
  std::vector<Answer> ranked(const SamplingParams& sampling) const;
  SequenceDelta best_so_far(const SequenceGroup& group) const;

  const std::int32_t max_model_len_;
  std::vector<Beam> beams_;  // live, best first
  std::vector<Answer> answers_;
  std::int64_t num_answers_ = 0;
};

}  // namespace pagoda
