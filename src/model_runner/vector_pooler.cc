#include "model_runner/vector_pooler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "kernels/dequantize.h"
#include "kernels/elementwise.h"
#include "loader/safetensors.h"

namespace pagoda {
namespace {

bool is_architecture(const ModelSource& source, std::string_view name) {
  const std::string* const own =
      source.gguf() != nullptr ? source.gguf()->string("general.architecture") : nullptr;
  return own != nullptr && *own == name;
}

const TensorView* find(const ModelSource& source, std::span<const std::string_view> prefixes,
                       std::string_view name) {
  for (const std::string_view prefix : prefixes)
    if (const TensorView* tensor = source.find(concat(prefix, name))) return tensor;
  return nullptr;
}

constexpr std::array<std::string_view, 6> kPrefixes = {"",         "model.",      "bert.",
                                                       "roberta.", "nomic_bert.", "new."};

std::vector<float> floats(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  dequantize(tensor.dtype, tensor.data, tensor.elements(), values.data());
  return values;
}

void activate(VectorActivation activation, std::vector<float>& x) {
  const auto each = [&x](auto f) {
    for (float& value : x) value = static_cast<float>(f(static_cast<double>(value)));
  };
  switch (activation) {
    case VectorActivation::none:
      return;
    case VectorActivation::tanh:
      return each([](double v) { return std::tanh(v); });
    case VectorActivation::relu:
      return each([](double v) { return std::max(v, 0.0); });
    case VectorActivation::gelu:
      return each([](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); });
    case VectorActivation::silu:
      return each([](double v) { return v / (1 + std::exp(-v)); });
    case VectorActivation::sigmoid:
      return each([](double v) { return 1 / (1 + std::exp(-v)); });
    case VectorActivation::softmax: {
      const double top = *std::ranges::max_element(x);
      double sum = 0;
      for (const float value : x) sum += std::exp(static_cast<double>(value) - top);
      return each([=](double v) { return std::exp(v - top) / sum; });
    }
  }
}

}  // namespace

Rows pooled_rows(const ScheduledSequence& sequence) {
  const auto count = static_cast<std::int64_t>(sequence.tokens.size());
  switch (sequence.pooling.type) {
    case PoolingType::mean:
      return {0, count};
    case PoolingType::first:
      return {0, sequence.num_computed_tokens == 0 ? 1 : 0};
    case PoolingType::last:
      break;
  }
  return {count - 1, sequence.sample ? 1 : 0};
}

Result<VectorPooler> VectorPooler::create(const KernelContext& context, const ModelSource& source,
                                          const PoolingModel& model, const DecoderModel& decoder) {
  VectorPooler pooler;
  pooler.context_ = &context;
  pooler.hidden_size_ = decoder.config().hidden_size;
  pooler.norm_eps_ = decoder.config().layers.front().norm.eps;
  pooler.size_ = decoder.config().hidden_size;
  pooler.rows_.resize(static_cast<std::size_t>(kRowsAtOnce * pooler.hidden_size_));
  if (model.kind == WorkKind::embed) {
    PAGODA_RETURN_IF_ERROR(pooler.add_dense(source, model));
    return pooler;
  }
  pooler.score_activation_ = model.score_activation;
  PAGODA_RETURN_IF_ERROR(model.answer_tokens
                             ? pooler.add_answer_tokens(source, model, decoder.config().vocab_size)
                             : pooler.add_score_head(source, model));
  return pooler;
}

std::int64_t VectorPooler::bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(rows_.size() * sizeof(float));
  for (const Stage& stage : stages_) bytes += stage.matrix.packed_bytes();
  return bytes;
}

Status VectorPooler::add_stage(const TensorView& matrix, std::vector<float> bias, VectorActivation act) {
  if (matrix.shape.size() != 2 || matrix.shape[1] != size_ || matrix.shape[0] < 1 ||
      matrix.shape[0] > (1 << 20) || (!bias.empty() && std::ssize(bias) != matrix.shape[0]))
    return corrupt_data("the classification head's matrix does not match the pooled vector");
  PAGODA_ASSIGN_OR_RETURN(
      auto packed, PackedLinear::pack(*context_, LinearType::float32, std::array{matrix}, std::move(bias)));
  size_ = static_cast<std::int32_t>(packed.n());
  stages_.push_back({.matrix = std::move(packed), .activation = act, .norm = {}});
  return ok_status();
}

// `rows`: the expected number of rows; 0: any.
Status VectorPooler::add_stage(const ModelSource& source, const std::string& name, std::int64_t rows,
                               VectorActivation act) {
  const TensorView* matrix = find(source, kPrefixes, name + ".weight");
  const TensorView* bias = find(source, kPrefixes, name + ".bias");
  if (matrix == nullptr) return corrupt_data(concat("tensor '", name, ".weight' is missing"));
  if (rows > 0 && (matrix->shape.empty() || matrix->shape[0] != rows))
    return corrupt_data(concat("tensor '", name, ".weight' should have ", rows, " rows"));
  for (const TensorView* part : {matrix, bias})
    if (part != nullptr) PAGODA_RETURN_IF_ERROR(source.bring_in(*part));
  const Status added = add_stage(*matrix, bias == nullptr ? std::vector<float>() : floats(*bias), act);
  return added.ok() ? added : added.annotate(name);
}

Status VectorPooler::add_dense(const ModelSource& source, const PoolingModel& model) {
  for (const PoolingModel::Dense& dense : model.dense) {
    const std::string path = concat(source.path(), "/", dense.folder, "/model.safetensors");
    PAGODA_ASSIGN_OR_RETURN(auto file, SafetensorsFile::open(path));
    const auto matrix = file.tensors().find("linear.weight"), bias = file.tensors().find("linear.bias");
    if (matrix == file.tensors().end())
      return corrupt_data(concat(dense.folder, ": tensor 'linear.weight' is missing"));
    const Status added =
        add_stage(matrix->second, bias == file.tensors().end() ? std::vector<float>() : floats(bias->second),
                  dense.activation);
    if (!added.ok()) return added.annotate(dense.folder);
  }
  // EmbeddingGemma's GGUF files have this matrix; in others it makes a vector per token (ColBERT).
  if (source.gguf() != nullptr && source.find("dense_2.weight") != nullptr &&
      !is_architecture(source, "gemma-embedding"))
    return unimplemented("a vector for each token ('dense_2.weight') is not supported");
  for (const std::string name : {"dense_2", "dense_3"})
    if (source.gguf() != nullptr && source.find(name + ".weight") != nullptr)
      PAGODA_RETURN_IF_ERROR(add_stage(source, name, 0, VectorActivation::none));
  return ok_status();
}

// Applied after the last stage (ModernBERT).
Status VectorPooler::add_norm(const ModelSource& source, std::string_view name) {
  const TensorView* norm = find(source, kPrefixes, name);
  if (norm == nullptr || norm->elements() != size_ || stages_.empty())
    return corrupt_data(concat("tensor '", name, "' is missing"));
  PAGODA_RETURN_IF_ERROR(source.bring_in(*norm));
  stages_.back().norm = floats(*norm);
  stages_.back().norm_eps = norm_eps_;
  return ok_status();
}

Status VectorPooler::add_score_head(const ModelSource& source, const PoolingModel& model) {
  const auto has = [&](std::string_view name) {
    return find(source, kPrefixes, concat(name, ".weight")) != nullptr;
  };
  const auto rows = static_cast<std::int64_t>(model.labels.size());
  if (source.gguf() != nullptr) {
    const bool modern = is_architecture(source, "modern-bert");
    if (has("cls"))
      PAGODA_RETURN_IF_ERROR(
          add_stage(source, "cls", 0, modern ? VectorActivation::gelu : VectorActivation::tanh));
    if (has("cls.norm")) PAGODA_RETURN_IF_ERROR(add_norm(source, "cls.norm.weight"));
    const TensorView* matrix = source.find("cls.output.weight");
    // Qwen3 rerankers: rows of "yes" and "no"; softmax over both equals the sigmoid of the difference.
    if (matrix != nullptr && matrix->shape.size() == 2 && matrix->shape[0] == 2 && !has("cls")) {
      std::vector<float> both = floats(*matrix);
      const std::size_t width = both.size() / 2;
      for (std::size_t i = 0; i < width; ++i) both[i] -= both[width + i];
      return add_stage({.dtype = DType::f32,
                        .shape = {1, matrix->shape[1]},
                        .data = reinterpret_cast<const std::byte*>(both.data())},
                       {}, VectorActivation::none);
    }
    return add_stage(source, "cls.output", rows, VectorActivation::none);
  }
  if (has("score")) return add_stage(source, "score", rows, VectorActivation::none);
  if (has("classifier.out_proj")) {
    PAGODA_RETURN_IF_ERROR(add_stage(source, "classifier.dense", size_, VectorActivation::tanh));
    return add_stage(source, "classifier.out_proj", rows, VectorActivation::none);
  }
  if (has("head.dense")) {  // ModernBERT
    PAGODA_RETURN_IF_ERROR(add_stage(source, "head.dense", size_, VectorActivation::gelu));
    PAGODA_RETURN_IF_ERROR(add_norm(source, "head.norm.weight"));
  } else if (has("pooler.dense")) {
    PAGODA_RETURN_IF_ERROR(add_stage(source, "pooler.dense", size_, VectorActivation::tanh));
  }
  if (has("classifier")) return add_stage(source, "classifier", rows, VectorActivation::none);
  return corrupt_data("the model has no classification head (score, classifier)");
}

// For a language model that answers yes or no: the score is how much more likely the second answer is.
Status VectorPooler::add_answer_tokens(const ModelSource& source, const PoolingModel& model,
                                       std::int32_t vocab_size) {
  const TensorView* head = nullptr;
  for (const std::string_view name : {"lm_head.weight", "output.weight", "model.embed_tokens.weight",
                                      "embed_tokens.weight", "token_embd.weight"})
    if (head == nullptr) head = source.find(name);
  const auto [no, yes] = *model.answer_tokens;
  if (head == nullptr || head->shape.size() != 2 || head->shape[1] != size_ || head->shape[0] < vocab_size ||
      std::min(no, yes) < 0 || std::max(no, yes) >= vocab_size)
    return corrupt_data("the model has no output rows for the tokens of classifier_from_token");
  const auto width = static_cast<std::size_t>(size_);
  const std::int64_t row_bytes = head->bytes() / head->shape[0];
  std::vector<float> weight(width), other(width);
  for (const std::int64_t row : {yes, no})
    PAGODA_RETURN_IF_ERROR(source.bring_in({head->dtype, {1, size_}, head->data + row * row_bytes}));
  dequantize(head->dtype, head->data + yes * row_bytes, size_, weight.data());
  dequantize(head->dtype, head->data + no * row_bytes, size_, other.data());
  for (std::size_t i = 0; i < width; ++i) weight[i] -= other[i];
  return add_stage(
      {.dtype = DType::f32, .shape = {1, size_}, .data = reinterpret_cast<const std::byte*>(weight.data())},
      {}, VectorActivation::none);
}

Status VectorPooler::run(const ScheduledBatch& batch, const HiddenRows& hidden,
                         std::vector<std::vector<float>>& vectors) {
  vectors.resize(batch.sequences.size());
  std::int64_t all = 0, next = 0, end = 0;  // rows_ holds rows [start of the piece, end)
  for (const ScheduledSequence& sequence : batch.sequences) all += pooled_rows(sequence).count;
  std::int64_t begin = 0;
  Status status;
  const auto next_row = [&]() -> const float* {
    if (next == end) {
      begin = end;
      end = std::min(all, begin + kRowsAtOnce);
      if (status.ok()) status = hidden(begin, end - begin, rows_.data());
    }
    return rows_.data() + (next++ - begin) * hidden_size_;
  };
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const ScheduledSequence& sequence = batch.sequences[i];
    std::vector<float>& vector = vectors[i];
    vector.assign(sequence.pooled.begin(), sequence.pooled.end());
    for (std::int64_t row = pooled_rows(sequence).count; row > 0; --row) {
      const float* values = next_row();
      vector.resize(static_cast<std::size_t>(hidden_size_), 0.0f);
      if (sequence.pooling.type != PoolingType::mean) std::ranges::fill(vector, 0.0f);
      for (std::int64_t d = 0; d < hidden_size_; ++d) vector[static_cast<std::size_t>(d)] += values[d];
    }
    if (!sequence.sample) continue;
    vector.resize(static_cast<std::size_t>(hidden_size_), 0.0f);
    if (sequence.pooling.type == PoolingType::mean) {
      const auto count = static_cast<float>(sequence.num_computed_tokens + std::ssize(sequence.tokens));
      for (float& value : vector) value /= count;
    }
    finish(sequence.pooling, sequence.work, vector);
  }
  return status;
}

void VectorPooler::finish(const PoolingSpec& spec, WorkKind kind, std::vector<float>& vector) const {
  std::vector<float> out;
  for (const Stage& stage : stages_) {
    out.resize(static_cast<std::size_t>(stage.matrix.n()));
    linear(*context_, stage.matrix, LinearInput::rows(vector.data(), stage.matrix.k()), 1,
           Buffer::of(out.data(), stage.matrix.n()));
    activate(stage.activation, out);
    vector.resize(out.size());
    if (stage.norm.empty())
      vector = out;
    else
      layer_norm(*context_, Buffer::of(out.data(), stage.matrix.n()), 1, stage.matrix.n(), stage.norm.data(),
                 nullptr, stage.norm_eps, Buffer::of(vector.data(), stage.matrix.n()));
  }
  if (kind == WorkKind::score) {
    if (spec.normalize) activate(score_activation_, vector);
    return;
  }
  if (spec.dimensions > 0 && std::cmp_less(spec.dimensions, vector.size()))
    vector.resize(static_cast<std::size_t>(spec.dimensions));
  if (!spec.normalize) return;
  float sum = 0;
  for (const float value : vector) sum += value * value;
  const float length = std::max(std::sqrt(sum), 1e-12f);
  for (float& value : vector) value /= length;
}

}  // namespace pagoda
