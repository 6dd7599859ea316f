#pragma once
// Recurrent layers over a sequence's state, its rows strictly in order: short convolutions, heads that keep a
// matrix, and channels that keep a vector. Draft tokens continue from the state, and their changes are
// visible only to them.
#include "device/kernels/layer_args.h"
#include "device/kernels/layer_rows.cuh"

namespace pagoda::device::kernels {

// One thread per channel. The last inputs are at the end of `past`, the newest last.
__global__ void causal_conv(CausalConvRows args) {
  begin_kernel();
  const int channel = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), kept = args.num_taps - 1;
  if (channel >= args.num_channels) return;
  constexpr int kPast = kMostTaps - 1;
  const StateRows& sequence = args.states.sequences[blockIdx.x];
  if (sequence.num_rows == 0) return;
  float* const own = args.states.pieces[sequence.first_piece];
  float past[kPast], taps[kPast];
#pragma unroll
  for (int i = 0; i < kPast; ++i) {
    const int tap = i - (kPast - kept);
    const std::int64_t at = static_cast<std::int64_t>(tap) * args.num_channels + channel;
    past[i] = tap < 0 || sequence.fresh != 0 ? 0 : own[at];
    taps[i] = tap < 0 ? 0 : args.weight[at];
  }
  const float newest = args.weight[static_cast<std::int64_t>(kept) * args.num_channels + channel];
  const auto keep = [&](float* columns) {
#pragma unroll
    for (int i = 0; i < kPast; ++i) {
      const int tap = i - (kPast - kept);
      if (tap >= 0) columns[static_cast<std::int64_t>(tap) * args.num_channels + channel] = past[i];
    }
  };
  int store = sequence.first_store;
  const int behind = store + sequence.num_stores;
  for (int row = 0; row < sequence.num_rows; ++row) {
    const std::int64_t at = sequence.first_row + row, from = at * args.input.stride + channel;
    float x = args.input.data[from];
    if (args.gate.data != nullptr) x *= args.gate.data[from];
    float y = 0;
#pragma unroll
    for (int i = 0; i < kPast; ++i) y = fmaf(taps[i], past[i], y);
    y = fmaf(newest, x, y);
    if (args.bias != nullptr) y += args.bias[channel];
    if (args.silu != 0) y *= sigmoid(y);
    if (args.output_gate.data != nullptr) y *= args.output_gate.data[from];
    args.output.data[at * args.output.stride + channel] = y;
#pragma unroll
    for (int i = 0; i + 1 < kPast; ++i) past[i] = past[i + 1];
    past[kPast - 1] = x;
    for (; store < behind && args.states.stores[store].num_rows == row + 1; ++store)
      keep(args.states.pieces[args.states.stores[store].first_piece]);
    if (row + 1 == sequence.num_rows - sequence.num_drafts) keep(own);
  }
}

// One thread per column of a head's matrix, which is in shared memory meanwhile. One warp.
__global__ void linear_attention(LinearAttentionRows args) {
  begin_kernel();
  PAGODA_SHARED(float, shared);
  const StateRows& sequence = args.states.sequences[blockIdx.x];
  if (sequence.num_rows == 0) return;
  const int head = static_cast<int>(blockIdx.y), first = static_cast<int>(blockIdx.z) * kStateTile;
  const int left = args.value_size - first, width = left < kStateTile ? left : kStateTile;
  const int column = static_cast<int>(threadIdx.x), keys = args.key_size;
  if (column >= width) return;
  const int key_head =
      args.tiled_heads != 0 ? head % args.num_key_heads : head / (args.num_heads / args.num_key_heads);
  const std::int64_t tile = static_cast<std::int64_t>(first) * keys;
  float* const own = args.states.pieces[sequence.first_piece + head] + tile;
  float* const state = shared + column;
  for (int i = 0; i < keys; ++i) state[i * kStateTile] = sequence.fresh != 0 ? 0 : own[i * width + column];
  const auto keep = [&](float* to) {
    for (int i = 0; i < keys; ++i) to[i * width + column] = state[i * kStateTile];
  };
  int store = sequence.first_store;
  const int behind = store + sequence.num_stores;
  for (int row = 0; row < sequence.num_rows; ++row) {
    const std::int64_t at = sequence.first_row + row;
    const float* const query =
        args.query.data + at * args.query.stride + static_cast<std::int64_t>(key_head) * keys;
    const float* const key =
        args.key.data + at * args.key.stride + static_cast<std::int64_t>(key_head) * keys;
    const std::int64_t place = static_cast<std::int64_t>(head) * args.value_size + first + column;
    const float value = args.value.data[at * args.value.stride + place];
    const float decay = args.decay.data[at * args.decay.stride + head];
    const float weight = args.weight.data[at * args.weight.stride + head];
    float known = 0, sum = 0;
    for (int i = 0; i < keys; ++i) {
      state[i * kStateTile] *= decay;
      known = fmaf(state[i * kStateTile], key[i], known);
    }
    const float change = weight * (args.delta_rule != 0 ? value - known : value);
    for (int i = 0; i < keys; ++i) {
      state[i * kStateTile] = fmaf(key[i], change, state[i * kStateTile]);
      sum = fmaf(state[i * kStateTile], query[i], sum);
    }
    if (args.skip != nullptr) sum = fmaf(args.skip[head], value, sum);
    args.output.data[at * args.output.stride + place] = sum;
    for (; store < behind && args.states.stores[store].num_rows == row + 1; ++store)
      keep(args.states.pieces[args.states.stores[store].first_piece + head] + tile);
    if (row + 1 == sequence.num_rows - sequence.num_drafts) keep(own);
  }
}

// One thread per channel, whose state is in shared memory meanwhile.
__global__ void selective_scan(SelectiveScanRows args) {
  begin_kernel();
  PAGODA_SHARED(float, shared);
  const StateRows& sequence = args.states.sequences[blockIdx.x];
  if (sequence.num_rows == 0) return;
  const int channel = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), size = args.state_size;
  if (channel >= args.num_channels) return;
  const int piece = channel / kScanChannels, tile = channel / kScanTile * kScanTile;
  const int left = args.num_channels - tile, width = left < kScanTile ? left : kScanTile;
  const std::int64_t at = static_cast<std::int64_t>(tile) * size + (channel - tile);
  const std::int64_t in_piece = at - static_cast<std::int64_t>(piece) * kScanChannels * size;
  float* const own = args.states.pieces[sequence.first_piece + piece] + in_piece;
  float* const state = shared + threadIdx.x;
  for (int n = 0; n < size; ++n) state[n * kScanThreads] = sequence.fresh != 0 ? 0 : own[n * width];
  const auto keep = [&](float* to) {
    for (int n = 0; n < size; ++n) to[n * width] = state[n * kScanThreads];
  };
  const float* const rate = args.rate + at;
  const float skip = args.skip[channel];
  int store = sequence.first_store;
  const int behind = store + sequence.num_stores;
  for (int row = 0; row < sequence.num_rows; ++row) {
    const std::int64_t r = sequence.first_row + row;
    const float* const key = args.key.data + r * args.key.stride;
    const float* const query = args.query.data + r * args.query.stride;
    const float step = softplus(args.step.data[r * args.step.stride + channel]);
    const float value = args.value.data[r * args.value.stride + channel], change = step * value;
    float sum = 0;
    for (int n = 0; n < size; ++n) {
      const float h = fmaf(key[n], change, expf(rate[n * width] * step) * state[n * kScanThreads]);
      state[n * kScanThreads] = h;
      sum = fmaf(query[n], h, sum);
    }
    args.output.data[r * args.output.stride + channel] = fmaf(skip, value, sum);
    for (; store < behind && args.states.stores[store].num_rows == row + 1; ++store)
      keep(args.states.pieces[args.states.stores[store].first_piece + piece] + in_piece);
    if (row + 1 == sequence.num_rows - sequence.num_drafts) keep(own);
  }
}

}  // namespace pagoda::device::kernels
