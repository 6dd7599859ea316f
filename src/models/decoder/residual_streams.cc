#include "models/decoder/residual_streams.h"

#include "kernels/rows.h"
#include "models/decoder/rank_exchange.h"

namespace pagoda {
namespace {

static_assert(kMaxStreams <= kMaxResidualStreams);

// Loads a square matrix for each of the other streams: a tensor each, or stacked in one tensor.
std::vector<PackedLinear> load_each(const std::string& name, std::int64_t count, std::int64_t hidden,
                                    WeightLoader& loader) {
  std::vector<PackedLinear> matrices;
  TensorView all;
  if (!is_numbered(name)) {
    all = loader.reader().tensor(name + ".weight", {count, hidden, hidden});
    all.shape = {count * hidden, hidden};
  }
  for (std::int64_t i = 0; i < count && loader.status().ok(); ++i) {
    if (is_numbered(name)) {
      matrices.push_back(loader.linear(numbered(name, i), hidden, hidden));
      continue;
    }
    Matrices rows;
    loader.add_rows(rows, all, name, {i * hidden, hidden});
    matrices.push_back(loader.pack(std::move(rows), name));
  }
  return matrices;
}

}  // namespace

ResidualStreams ResidualStreams::load(const DecoderConfig& config, WeightLoader& loader) {
  const WeightNames& names = loader.names();
  ResidualStreams streams;
  const std::int64_t count = streams.streams_ = config.streams->count;
  const std::int64_t hidden = streams.hidden_ = config.hidden_size;
  streams.eps_ = config.final_norm->eps;
  streams.enter_ = load_each(names.streams_enter, count - 1, hidden, loader);
  streams.leave_ = load_each(names.streams_leave, count - 1, hidden, loader);
  for (std::int32_t index = 0; index < config.num_layers() && loader.status().ok(); ++index) {
    const std::string prefix = names.layer_prefix(index);
    Layer& layer = streams.layers_.emplace_back();
    layer.router = loader.exact_linear(prefix + names.streams_router, count, hidden);
    layer.router_norm =
        loader.place(loader.norm_vector(prefix + names.streams_router_norm, hidden, *config.final_norm));
    layer.predict = loader.place(
        loader.reader().values(prefix + names.streams_predict + ".weight", count * count * count));
    layer.correct =
        loader.place(loader.reader().values(prefix + names.streams_correct + ".weight", count * count));
    const std::string scale = prefix + names.streams_scale;  // some files omit ".weight"
    if (config.streams->scaled)
      layer.scale = loader.place(
          loader.reader().vector(loader.reader().has(scale) ? scale : scale + ".weight", hidden));
    else
      for (const char* end : {"", ".weight"}) loader.reader().ignore(scale + end);
  }
  return streams;
}

std::int64_t ResidualStreams::workspace_size(std::int64_t rows, std::int64_t chunk_rows) const {
  return padded(rows * others_width()) + padded(rows * hidden_) + padded(chunk_rows * hidden_) +
         padded(chunk_rows * streams_);
}

void ResidualStreams::place(const Buffer& workspace, std::int64_t rows, std::int64_t chunk_rows) {
  others_ = workspace.with_stride(others_width());
  predicted_ = others_.at(0, padded(rows * others_width())).with_stride(hidden_);
  between_ = predicted_.at(0, padded(rows * hidden_));
  modes_ = between_.at(0, padded(chunk_rows * hidden_)).with_stride(streams_);
}

void ResidualStreams::begin(const KernelContext& context, std::int64_t first, std::int64_t count,
                            const Buffer& x) {
  for (std::size_t i = 0; i < enter_.size(); ++i) {
    linear(context, enter_[i], LinearInput::rows(x), count, between_);
    match_magnitude(context, shape(count), between_, x, StreamSum::none,
                    others_.at(first, static_cast<std::int64_t>(i) * hidden_));
  }
}

// Returns r(x) of each row: [count, streams].
Buffer ResidualStreams::route(const KernelContext& context, const Layer& layer, std::int64_t count,
                              const Buffer& x) {
  LinearInput input = LinearInput::rows(x);
  input.op = LinearInput::Op::rms_norm;
  input.weight = layer.router_norm.data();
  input.eps = eps_;
  linear(context, layer.router, input, count, modes_);
  turn_modes(context, shape(count), modes_);
  return modes_;
}

void ResidualStreams::predict(const KernelContext& context, std::size_t index, std::int64_t first,
                              std::int64_t count, const Buffer& x) {
  const Buffer modes = route(context, layers_[index], count, x);
  predict_streams(context, shape(count), layers_[index].predict.data(), modes, x, others_.at(first),
                  predicted_.at(first));
}

void ResidualStreams::correct(const KernelContext& context, std::size_t index, std::int64_t first,
                              std::int64_t count, const Buffer& x) {
  const Buffer modes = route(context, layers_[index], count, x);
  correct_streams(context, shape(count), layers_[index].correct.data(), modes, predicted_.at(first), x,
                  others_.at(first));
}

Buffer ResidualStreams::scaled(const KernelContext& context, std::size_t index, std::int64_t count,
                               const Buffer& x) {
  const PlacedVector& scale = layers_[index].scale;
  if (scale.empty()) return x;
  times_vector(context, {count, hidden_}, x, scale.data(), between_);
  return between_;
}

void ResidualStreams::add_to_others(const KernelContext& context, std::int64_t first, std::int64_t count,
                                    const Buffer& y) {
  add_to_streams(context, shape(count), y, others_.at(first));
}

void ResidualStreams::end(const KernelContext& context, std::int64_t first, std::int64_t count,
                          const Buffer& x) {
  copy_rows(context, {count, hidden_}, x, predicted_.at(first));
  for (std::size_t i = 0; i < leave_.size(); ++i) {
    const Buffer other = others_.at(first, static_cast<std::int64_t>(i) * hidden_);
    linear(context, leave_[i], LinearInput::rows(other), count, between_);
    match_magnitude(context, shape(count), between_, predicted_.at(first),
                    i + 1 == leave_.size() ? StreamSum::added_last : StreamSum::added, x);
  }
}

void ResidualStreams::gather(const KernelContext& context, std::span<const std::int32_t> rows) {
  gather_rows(context, rows, others_width(), others_);
  gather_rows(context, rows, hidden_, predicted_);
}

}  // namespace pagoda
