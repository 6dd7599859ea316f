#pragma once
// VectorPooler: from a step's hidden states to vectors (request/work.h): pools each sequence's rows in order
// of position, whatever the steps in which they come, then multiplies what the model has behind that
// (pooling_model.h), cuts and normalises. Has the weights of heads, in float32; not the model's own.
// Invariant: a vector depends on its own sequence alone, to the bit. Threads: the runner's one caller.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/linear.h"
#include "loader/model_source.h"
#include "model_runner/pooling_model.h"
#include "models/decoder/decoder.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

// Which of a sequence's rows of this step, counted from its first, its vector is made of.
Rows pooled_rows(const ScheduledSequence& sequence);

class VectorPooler {
 public:
  // corrupt_data: a head's tensor is missing or misshapen. Nothing of `source` is kept.
  static Result<VectorPooler> create(const KernelContext& context, const ModelSource& source,
                                     const PoolingModel& model, const DecoderModel& decoder);

  std::int32_t size() const { return size_; }  // elements of a vector
  std::int64_t bytes() const;

  // Pools the last forward, whose output rows were those of pooled_rows() of each sequence: one vector for
  // each (StepResult::vectors). `hidden` gives rows [first, first + count) of them, at most kRowsAtOnce.
  static constexpr std::int64_t kRowsAtOnce = 64;
  using HiddenRows = std::function<Status(std::int64_t first, std::int64_t count, float* out)>;
  Status run(const ScheduledBatch& batch, const HiddenRows& hidden, std::vector<std::vector<float>>& vectors);

 private:
  // Operations on a pooled vector, one after the other.
  struct Stage {
    PackedLinear matrix;
    VectorActivation activation = VectorActivation::none;
    std::vector<float> norm;  // a layer norm's weight, behind the activation; empty: none
    float norm_eps = 0;
  };
  Status add_stage(const ModelSource& source, const std::string& name, std::int64_t rows,
                   VectorActivation act);
  Status add_stage(const TensorView& matrix, std::vector<float> bias, VectorActivation act);
  Status add_dense(const ModelSource& source, const PoolingModel& model);
  Status add_norm(const ModelSource& source, std::string_view name);
  Status add_score_head(const ModelSource& source, const PoolingModel& model);
  Status add_answer_tokens(const ModelSource& source, const PoolingModel& model, std::int32_t vocab_size);
  void finish(const PoolingSpec& spec, WorkKind kind, std::vector<float>& vector) const;

  const KernelContext* context_ = nullptr;
  std::vector<Stage> stages_;
  VectorActivation score_activation_ = VectorActivation::none;
  std::int64_t hidden_size_ = 0;
  float norm_eps_ = 0;  // the model's
  std::int32_t size_ = 0;
  std::vector<float> rows_;  // hidden states, some at a time
};

}  // namespace pagoda
