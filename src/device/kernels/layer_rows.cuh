#pragma once
// Plain ops on rows with any stride. grid.x: rows; grid.y: groups or heads of a row, if any; otherwise blocks
// that share a row.
#include "device/kernels/layer_args.h"
#include "device/kernels/rows.cuh"

namespace pagoda::device::kernels {

__device__ __forceinline__ float* row_of(const StridedRows& rows) {
  return rows.data + static_cast<std::int64_t>(blockIdx.x) * rows.stride;
}
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }
__device__ __forceinline__ float clipped(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

__device__ __forceinline__ float xielu_of(const RowOpArgs& args, float x) {
  if (x > 0) return (args.positive * x + args.beta) * x;
  return (expm1f(x < args.eps ? x : args.eps) - x) * args.negative + args.beta * x;
}

__global__ void row_op(RowOpArgs args) {
  begin_kernel();
  float* const y = row_of(args.y);
  const float* const a = args.a.data != nullptr ? row_of(args.a) : nullptr;
  const float* const b = args.b.data != nullptr ? row_of(args.b) : nullptr;
  float factor = args.factor;
  if (args.op == RowOp::add_share && b != nullptr) factor *= sigmoid(b[0]);
  if (args.op == RowOp::by_position)
    factor =
        1 + args.beta * log1pf(static_cast<float>((args.positions[blockIdx.x] + args.offset) / args.period));
  for (int i = first_of_row(); i < args.width; i += step_in_row()) {
    switch (args.op) {
      case RowOp::zero:
        y[i] = 0;
        break;
      case RowOp::copy:
        y[i] = a[i];
        break;
      case RowOp::scale:
      case RowOp::by_position:
        y[i] *= factor;
        break;
      case RowOp::clip:
        y[i] = clipped(y[i], -factor, factor);
        break;
      case RowOp::cap:
        y[i] = factor * tanhf(y[i] / factor);
        break;
      case RowOp::squash:
        y[i] = tanhf(y[i] / factor);
        break;
      case RowOp::add:
      case RowOp::add_share:
        y[i] = y[i] + factor * a[i];
        break;
      case RowOp::add_sum:
        y[i] = y[i] + (a[i] + b[i]);
        break;
      case RowOp::join:
        y[i] = (y[i] + a[i]) * factor;
        break;
      case RowOp::add_vector:
        y[i] = y[i] + args.vector[i];
        break;
      case RowOp::times_vector:
        y[i] = a[i] * args.vector[i];
        break;
      case RowOp::times_sum:
        y[i] *= (a[i] + args.second * b[i]) * factor;
        break;
      case RowOp::times_softplus:
        y[i] *= softplus(a[i / args.each]);
        break;
      case RowOp::times_sigmoid:
        y[i] *= sigmoid(a[i / args.each]);
        break;
      case RowOp::xielu:
        y[i] = xielu_of(args, y[i]);
        break;
    }
  }
}

// One block per group. Shared: a float per warp. A thread only writes elements that no other thread reads.
__global__ void norm_groups(NormGroupsArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, sums);
  const int size = args.size, first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.y) * size;
  const float* const x = row_of(args.x) + at;
  float* const out = row_of(args.out) + at;
  const float* const gate = args.gate.data != nullptr ? row_of(args.gate) + at : nullptr;
  const float* const weight = args.weight != nullptr
                                  ? args.weight + static_cast<std::int64_t>(blockIdx.y) * args.weight_stride
                                  : nullptr;
  const auto factor = [&](int i) { return gate[i] * sigmoid(gate[i]); };
  const auto value = [&](int i) { return gate != nullptr && args.gate_first != 0 ? x[i] * factor(i) : x[i]; };
  float mean = 0, scale = args.scale;
  if (args.kind == GroupNorm::layer) {
    float sum = 0;
    for (int i = first; i < size; i += step) sum += value(i);
    mean = block_sum(sum, sums) / static_cast<float>(size);
    __syncthreads();
  }
  if (args.kind != GroupNorm::none) {
    float squares = 0;
    for (int i = first; i < size; i += step) squares = fmaf(value(i) - mean, value(i) - mean, squares);
    const float sum = block_sum(squares, sums);
    scale /= sqrtf((args.kind == GroupNorm::unit ? sum : sum / static_cast<float>(size)) + args.eps);
  }
  for (int i = first; i < size; i += step) {
    float result = (value(i) - mean) * scale;
    if (weight != nullptr) result *= weight[i];
    if (args.bias != nullptr) result += args.bias[i];
    if (gate != nullptr && args.gate_first == 0) result *= factor(i);
    out[i] = result;
  }
}

// One warp per head: a lane has both elements of a pair.
__global__ void turn_heads(TurnHeadsArgs args) {
  begin_kernel();
  const int half = args.rotary_size / 2;
  float* const x = row_of(args.x) + static_cast<std::int64_t>(blockIdx.y) * args.head_size;
  const float* const turn = args.cos_sin.data + args.turns[blockIdx.x] * args.cos_sin.stride;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += 32) {
    const float a = x[i], b = x[i + half], c = turn[i], s = turn[i + half];
    x[i] = a * c - b * s;
    x[i + half] = b * c + a * s;
  }
}

// Cosine and sine by their series within an eighth of a turn, to 1e-13: the library's functions use local
// memory for large angles.
struct CosineAndSine {
  double cosine, sine;
};
__device__ __forceinline__ CosineAndSine cosine_and_sine(double angle) {
  constexpr double kQuarter = 1.5707963267948966;
  const double quarters = floor(angle / kQuarter + 0.5), x = angle - quarters * kQuarter, square = x * x;
  double cosine = 1, sine = 1;
#pragma unroll
  for (int i = 14; i > 0; i -= 2) {
    cosine = 1 - square / ((i - 1) * i) * cosine;
    sine = 1 - square / (i * (i + 1)) * sine;
  }
  sine *= x;
  const int quadrant = static_cast<int>(static_cast<long long>(quarters) & 3);
  const double c = quadrant % 2 == 0 ? cosine : sine, s = quadrant % 2 == 0 ? sine : cosine;
  return {quadrant == 1 || quadrant == 2 ? -c : c, quadrant >= 2 ? -s : s};
}

__global__ void fill_rotations(FillRotationsArgs args) {
  begin_kernel();
  float* const out = row_of(args.out);
  for (int i = first_of_row(); i < args.pairs; i += step_in_row()) {
    const CosineAndSine turn = cosine_and_sine(args.positions[blockIdx.x] * args.frequencies[i]);
    out[i] = static_cast<float>(args.amplitude * turn.cosine);
    out[args.pairs + i] = static_cast<float>(args.amplitude * turn.sine);
  }
}

// One block per row. Shared: a float per warp.
__global__ void sparse_gate(SparseGateArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, sums);
  const float* const gates = row_of(args.gates);
  float* const up = row_of(args.up);
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const auto width = static_cast<float>(args.width);
  float sum = 0, squares = 0;
  for (int i = first; i < args.width; i += step) sum += gates[i];
  const float mean = block_sum(sum, sums) / width;
  __syncthreads();
  for (int i = first; i < args.width; i += step) squares = fmaf(gates[i] - mean, gates[i] - mean, squares);
  const float cutoff = mean + args.deviations * sqrtf(block_sum(squares, sums) / width);
  for (int i = first; i < args.width; i += step)
    up[i] = gates[i] > cutoff ? function_of(Function::gelu_tanh, gates[i] - cutoff) * up[i] : 0.0f;
}

// One block per row. Shared: a float per warp.
__global__ void match_magnitude(MatchMagnitudeArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, sums);
  const float *const from = row_of(args.from), *const like = row_of(args.like);
  float* const to = row_of(args.to);
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  const auto width = static_cast<float>(args.width);
  float own = 0, wanted = 0;
  for (int i = first; i < args.width; i += step) own = fmaf(from[i], from[i], own);
  own = block_sum(own, sums) / width;
  __syncthreads();
  for (int i = first; i < args.width; i += step) wanted = fmaf(like[i], like[i], wanted);
  wanted = block_sum(wanted, sums) / width;
  const float scale = sqrtf(wanted) / sqrtf(own > 1e-5f ? own : 1e-5f);
  for (int i = first; i < args.width; i += step)
    to[i] = args.added != 0 ? (to[i] + scale * from[i]) / args.divisor : scale * from[i];
}

// One block per row. Shared: a factor for each pair of streams.
__global__ void predict_streams(StreamsArgs args) {
  begin_kernel();
  PAGODA_SHARED(float, mix);
  const int streams = args.streams, first = static_cast<int>(threadIdx.x),
            step = static_cast<int>(blockDim.x);
  const float* const modes = row_of(args.modes);
  for (int pair = first; pair < streams * streams; pair += step) {
    float sum = 0;
    for (int k = 0; k < streams; ++k) sum += args.factors[pair * streams + k] * modes[k];
    mix[pair] = sum;
  }
  __syncthreads();
  float *const x = row_of(args.x), *const others = row_of(args.others),
               *const predicted = row_of(args.predicted);
  for (int j = first; j < args.width; j += step) {
    float from[kMostStreams];
#pragma unroll
    for (int k = 0; k < kMostStreams; ++k)
      from[k] = k >= streams ? 0 : k == 0 ? x[j] : others[static_cast<std::int64_t>(k - 1) * args.width + j];
#pragma unroll
    for (int i = 0; i < kMostStreams; ++i) {
      if (i >= streams) continue;
      float sum = from[i];
#pragma unroll
      for (int k = 0; k < kMostStreams; ++k)
        if (k < streams) sum += mix[i * streams + k] * from[k];
      (i == 0 ? x[j] : others[static_cast<std::int64_t>(i - 1) * args.width + j]) = sum;
      if (i == 0) predicted[j] = sum;
    }
  }
}

__global__ void correct_streams(StreamsArgs args) {
  begin_kernel();
  const float *const modes = row_of(args.modes), *const predicted = row_of(args.predicted);
  float *const x = row_of(args.x), *const others = row_of(args.others);
  for (int j = first_of_row(); j < args.width; j += step_in_row()) {
    const float before = predicted[j], change = x[j] - before;
    for (int i = 0; i < args.streams; ++i) {
      float factor = 1;
      for (int k = 0; k < args.streams; ++k) factor += args.factors[i * args.streams + k] * modes[k];
      float* const to = i == 0 ? x + j : others + static_cast<std::int64_t>(i - 1) * args.width + j;
      *to = (i == 0 ? before : *to) + factor * change;
    }
  }
}

__global__ void recurrent_gates(RecurrentGatesArgs args) {
  begin_kernel();
  float *const weight = row_of(args.weight), *const decay = row_of(args.decay);
  for (int head = first_of_row(); head < args.num_heads; head += step_in_row()) {
    if (args.delta_rule != 0) {
      weight[head] = sigmoid(weight[head]);
      decay[head] = expf(args.rate[head] * softplus(decay[head] + args.bias[head]));
    } else {
      weight[head] = clipped(softplus(weight[head] + args.bias[head]), args.least_step, args.most_step);
      decay[head] = expf(args.rate[head] * weight[head]);
    }
  }
}

__global__ void latent_rows(LatentRowsArgs args) {
  begin_kernel();
  const int head = static_cast<int>(blockIdx.y);
  float* const to = row_of(args.out) + static_cast<std::int64_t>(head) * (args.latent_size + args.rope_size) +
                    args.latent_size;
  const float* const from =
      head < args.num_heads
          ? row_of(args.queries) + static_cast<std::int64_t>(head) * args.query_size + args.nope_size
          : row_of(args.kept) + args.latent_size;
  for (int i = static_cast<int>(threadIdx.x); i < args.rope_size; i += 32) to[i] = from[i];
}

}  // namespace pagoda::device::kernels
