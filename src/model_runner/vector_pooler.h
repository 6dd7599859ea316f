#pragma once
// VectorPooler: turns a step's hidden states into vectors (request/work.h). Pools each sequence's rows in
// order of position, however they are split over steps, applies the model's stages after pooling
// (pooling_model.h), then truncates and normalises. Holds the weights of heads in float32, but not the
// model's own weights.
// Invariant: a vector depends only on its own sequence, to the bit.
// Threads: the runner's one caller.
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

// Returns which rows of a sequence in this step, counted from its first, are pooled.
Rows pooled_rows(const ScheduledSequence& sequence);

class VectorPooler {
 public:
  // corrupt_data: a head's tensor is missing or misshapen. Keeps no reference to `source`.
  static Result<VectorPooler> create(const KernelContext& context, const ModelSource& source,
                                     const PoolingModel& model, const DecoderModel& decoder);

  std::int32_t size() const { return size_; }  // elements of a vector
  std::int64_t bytes() const;

  // Pools the latest forward pass, whose output rows were pooled_rows() of each sequence; returns one vector
  // per sequence (StepResult::vectors). `hidden` returns rows [first, first + count) of them, at most
  // kRowsAtOnce.
  static constexpr std::int64_t kRowsAtOnce = 64;
  using HiddenRows = std::function<Status(std::int64_t first, std::int64_t count, float* out)>;
  Status run(const ScheduledBatch& batch, const HiddenRows& hidden, std::vector<std::vector<float>>& vectors);

 private:
  // One operation on a pooled vector; stages are applied in order.
  struct Stage {
    PackedLinear matrix;
    VectorActivation activation = VectorActivation::none;
    std::vector<float> norm;  // a layer norm's weight, applied after the activation; empty: none
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
  float norm_eps_ = 0;  // the model's epsilon
  std::int32_t size_ = 0;
  std::vector<float> rows_;  // hidden states of up to kRowsAtOnce rows
};

}  // namespace pagoda
