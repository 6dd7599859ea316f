#include "models/residual_streams.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/tiles.h"
#include "models/rank_exchange.h"

namespace pagoda {
namespace {

// The root of the mean square of a row.
double magnitude(const float* x, std::int64_t width, double least) {
  double sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(std::max(sum / static_cast<double>(width), least));
}

constexpr double kMinSquare = 1e-5;  // least divisor

// A square matrix of each of the other streams: a tensor each, or all of them in one, one below the other.
std::vector<PackedLinear> load_each(const std::string& name, std::int64_t count, std::int64_t hidden,
                                    WeightLoader& loader) {
  std::vector<PackedLinear> matrices;
  const std::size_t number = name.find("{}");
  TensorView all;
  if (number == std::string::npos) {
    all = loader.reader().tensor(name + ".weight", {count, hidden, hidden});
    all.shape = {count * hidden, hidden};
  }
  for (std::int64_t i = 0; i < count && loader.status().ok(); ++i) {
    if (number == std::string::npos) {
      Matrices rows;
      loader.add_rows(rows, all, name, {i * hidden, hidden});
      matrices.push_back(loader.pack(std::move(rows), name));
    } else {
      std::string each = name;
      matrices.push_back(loader.linear(each.replace(number, 2, std::to_string(i)), hidden, hidden));
    }
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
    layer.router_norm = loader.norm_vector(prefix + names.streams_router_norm, hidden, *config.final_norm);
    layer.predict = loader.reader().values(prefix + names.streams_predict + ".weight", count * count * count);
    layer.correct = loader.reader().values(prefix + names.streams_correct + ".weight", count * count);
    const std::string scale = prefix + names.streams_scale;  // some files have it without the ending
    if (config.streams->scaled)
      layer.scale = loader.reader().vector(loader.reader().has(scale) ? scale : scale + ".weight", hidden);
    else
      for (const char* end : {"", ".weight"}) loader.reader().ignore(scale + end);
  }
  return streams;
}

std::int64_t ResidualStreams::room(std::int64_t rows, std::int64_t chunk_rows) const {
  return padded(rows * others_width()) + padded(rows * hidden_) + padded(chunk_rows * hidden_) +
         padded(chunk_rows * streams_);
}

void ResidualStreams::place(float* room, std::int64_t rows, std::int64_t chunk_rows) {
  others_ = room;
  predicted_ = others_ + padded(rows * others_width());
  between_ = predicted_ + padded(rows * hidden_);
  modes_ = between_ + padded(chunk_rows * hidden_);
}

void ResidualStreams::begin(const KernelContext& context, std::int64_t first, std::int64_t count,
                            const float* x) {
  for (std::size_t i = 0; i < enter_.size(); ++i) {
    linear(context, enter_[i], LinearInput::rows(x, hidden_), count, between_);
    for_tiles(context, count, [&](std::int64_t row, int) {
      const float* const from = between_ + row * hidden_;
      const auto scale =
          static_cast<float>(magnitude(x + row * hidden_, hidden_, 0) / magnitude(from, hidden_, kMinSquare));
      float* const to = others(first + row) + static_cast<std::int64_t>(i) * hidden_;
      for (std::int64_t j = 0; j < hidden_; ++j) to[j] = scale * from[j];
    });
  }
}

// r(x) of each row: [count, streams].
const float* ResidualStreams::route(const KernelContext& context, const Layer& layer, std::int64_t count,
                                    const float* x) {
  const LinearInput input = {.x = x,
                             .stride = hidden_,
                             .op = LinearInput::Op::rms_norm,
                             .weight = layer.router_norm.data(),
                             .eps = eps_};
  linear(context, layer.router, input, count, modes_);
  for (std::int64_t i = 0; i < count * streams_; ++i)
    modes_[i] = std::tanh(modes_[i] / static_cast<float>(hidden_));
  return modes_;
}

void ResidualStreams::predict(const KernelContext& context, std::size_t index, std::int64_t first,
                              std::int64_t count, float* x) {
  const Layer& layer = layers_[index];
  const float* const modes = route(context, layer, count, x);
  for_tiles(context, count, [&](std::int64_t row, int) {
    std::array<float, kMaxStreams * kMaxStreams> factors = {};  // [to, from]
    for (std::int64_t i = 0; i < streams_ * streams_; ++i)
      for (std::int64_t k = 0; k < streams_; ++k)
        factors[static_cast<std::size_t>(i)] +=
            layer.predict[static_cast<std::size_t>(i * streams_ + k)] * modes[row * streams_ + k];
    float* const own = x + row * hidden_;
    float* const rest = others(first + row);
    std::array<float, kMaxStreams> from = {};
    for (std::int64_t j = 0; j < hidden_; ++j) {
      from[0] = own[j];
      for (std::int64_t k = 1; k < streams_; ++k)
        from[static_cast<std::size_t>(k)] = rest[(k - 1) * hidden_ + j];
      for (std::int64_t i = 0; i < streams_; ++i) {
        float sum = from[static_cast<std::size_t>(i)];
        for (std::int64_t k = 0; k < streams_; ++k)
          sum += factors[static_cast<std::size_t>(i * streams_ + k)] * from[static_cast<std::size_t>(k)];
        (i == 0 ? own[j] : rest[(i - 1) * hidden_ + j]) = sum;
      }
    }
    std::memcpy(predicted_ + (first + row) * hidden_, own, static_cast<std::size_t>(hidden_) * sizeof(float));
  });
}

void ResidualStreams::correct(const KernelContext& context, std::size_t index, std::int64_t first,
                              std::int64_t count, float* x) {
  const Layer& layer = layers_[index];
  const float* const modes = route(context, layer, count, x);
  for_tiles(context, count, [&](std::int64_t row, int) {
    float* const own = x + row * hidden_;
    const float* const predicted = predicted_ + (first + row) * hidden_;
    for (std::int64_t i = streams_ - 1; i >= 0; --i) {  // the one that all others read comes last
      float factor = 1;
      for (std::int64_t k = 0; k < streams_; ++k)
        factor += layer.correct[static_cast<std::size_t>(i * streams_ + k)] * modes[row * streams_ + k];
      float* const to = i == 0 ? own : others(first + row) + (i - 1) * hidden_;
      const float* const base = i == 0 ? predicted : to;
      for (std::int64_t j = 0; j < hidden_; ++j) to[j] = base[j] + factor * (own[j] - predicted[j]);
    }
  });
}

const float* ResidualStreams::scaled(const KernelContext& context, std::size_t index, std::int64_t count,
                                     const float* x) {
  const std::vector<float>& scale = layers_[index].scale;
  if (scale.empty()) return x;
  for_tiles(context, count, [&](std::int64_t row, int) {
    for (std::int64_t j = 0; j < hidden_; ++j)
      between_[row * hidden_ + j] = x[row * hidden_ + j] * scale[static_cast<std::size_t>(j)];
  });
  return between_;
}

void ResidualStreams::add_to_others(const KernelContext& context, std::int64_t first, std::int64_t count,
                                    const float* y) {
  for_tiles(context, count, [&](std::int64_t row, int) {
    float* const to = others(first + row);
    for (std::int64_t i = 0; i < others_width(); ++i) to[i] += y[row * hidden_ + i % hidden_];
  });
}

void ResidualStreams::end(const KernelContext& context, std::int64_t first, std::int64_t count, float* x) {
  std::memcpy(predicted_ + first * hidden_, x, static_cast<std::size_t>(count * hidden_) * sizeof(float));
  for (std::size_t i = 0; i < leave_.size(); ++i) {
    const LinearInput input = {.x = others(first) + static_cast<std::int64_t>(i) * hidden_,
                               .stride = others_width()};
    linear(context, leave_[i], input, count, between_);
    for_tiles(context, count, [&](std::int64_t row, int) {
      const float* const from = between_ + row * hidden_;
      const auto scale = static_cast<float>(magnitude(predicted_ + (first + row) * hidden_, hidden_, 0) /
                                            magnitude(from, hidden_, kMinSquare));
      float* const to = x + row * hidden_;
      const bool last = i + 1 == leave_.size();
      for (std::int64_t j = 0; j < hidden_; ++j) {
        to[j] += scale * from[j];
        if (last) to[j] /= static_cast<float>(streams_);
      }
    });
  }
}

void ResidualStreams::move_row(std::int64_t from, std::int64_t to) {
  if (from == to) return;
  std::memmove(others(to), others(from), static_cast<std::size_t>(others_width()) * sizeof(float));
  std::memmove(predicted_ + to * hidden_, predicted_ + from * hidden_,
               static_cast<std::size_t>(hidden_) * sizeof(float));
}

}  // namespace pagoda
