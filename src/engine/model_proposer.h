#pragma once
// ModelProposer: a smaller model of the same vocabulary drafts what it finds most likely. The model has a
// runner and a KV cache of its own. A call computes at most one step's rows of text whose K/V are missing,
// and then a row for each draft of each sequence, one step after the other. How many drafts pay,
// draft_policy.h says. A model that fails drafts no more; that is no error of the engine's.
//
//     new sequence --its text is short, or its answer long enough--> caught up, some rows a call --> drafts
//
// Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2023); here a draft
// is right if it equals the token that was drawn. Threads: none; the engine thread's.
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "decoding/draft_proposer.h"
#include "decoding/speculative_config.h"
#include "kv_cache/kv_manager.h"
#include "model_runner/model_runner.h"

namespace pagoda {

struct DraftModelConfig {
  SpeculativeConfig speculative = {};
  // The limits of its runner's steps and sequences.
  std::int32_t max_num_seqs = 0, max_num_batched_tokens = 0, max_model_len = 0;
  std::int32_t vocab_size = 0;         // its own
  std::int32_t served_vocab_size = 0;  // the served model's: others are no drafts
  double cost = 0;                     // time of one of its steps over one of the served model's
};

class ModelProposer final : public DraftProposer {
 public:
  ModelProposer(DraftModelConfig config, std::unique_ptr<ModelRunner> runner, std::unique_ptr<KvManager> kv);
  ~ModelProposer() override;

  void propose(std::span<const DraftableSequence> sequences, std::int32_t num_decodes) override;
  void verified(Sequence& sequence, std::int32_t num_tried, std::int32_t num_accepted) override;
  bool is_reproducible() const override { return false; }
  void clear_cache() override;
  Status release_memory() override;
  Status load_weights() override;

  const KvManager& kv() const { return *kv_; }
  const Status& status() const { return status_; }  // not ok: it drafts no more

 private:
  struct Known;   // a sequence whose K/V are in its cache
  struct Active;  // one that is worth rows in this call
  struct Row;     // tokens of a step

  void forget_absent(std::span<const DraftableSequence> sequences);
  void forget(SequenceId id);
  void choose(const DraftableSequence& one, std::int32_t num_decodes);
  bool follow(Known& known, const SequenceGroup& group, const Sequence& sequence);
  bool take_text(Known& known, const Sequence& sequence) const;
  bool is_worth_catching_up(const Known& known, const Sequence& sequence) const;
  void catch_up();
  bool draft_one();
  bool step(std::span<Row> rows);

  const DraftModelConfig config_;
  const std::unique_ptr<ModelRunner> runner_;
  const RotationRule rotation_;
  const std::unique_ptr<KvManager> kv_;
  SamplingParams greedy_;
  Status status_;
  std::uint64_t call_ = 0;  // number of the latest propose()
  std::unordered_map<SequenceId, Known> known_;
  // Kept for their capacity.
  std::vector<Active> active_;
  std::vector<Row> rows_;
  ScheduledBatch batch_;
};

}  // namespace pagoda
