#pragma once
// ModelProposer: a smaller model with the same vocabulary drafts its most likely tokens. The model has its
// own runner and KV cache. A call computes at most one step's rows of text with missing K/V, and then one row
// per draft of each sequence, step by step. draft_policy.h decides how many drafts pay off. A model that
// fails stops drafting; the engine continues without an error.
//
//     new sequence --its text is short, or its answer long enough--> caught up, some rows a call --> drafts
//
// Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2023); here a draft
// is correct if it equals the token that was drawn. Threads: none; the engine thread's.
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
  // The limits of the draft model's runner.
  std::int32_t max_num_seqs = 0, max_num_batched_tokens = 0, max_model_len = 0;
  std::int32_t vocab_size = 0;         // vocabulary of the draft model
  std::int32_t served_vocab_size = 0;  // vocabulary of the served model; larger ids are not drafted
  double cost = 0;                     // duration of a draft step relative to a step of the served model
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
  const Status& status() const { return status_; }  // not ok: no more drafts

 private:
  struct Known;   // a sequence with K/V in the draft model's cache
  struct Active;  // a sequence to compute rows for in this call
  struct Row;     // tokens of one sequence in a step

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
