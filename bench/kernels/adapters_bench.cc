// adapters_bench [--threads N] [--rank R] [--layers L]: the cost of low-rank adapters for the rows of a
// batch. Runs the products of L layers with the shapes of Llama 3.2 1B, with all matrices adapted. Prints
// milliseconds without adapters, with one adapter for all rows, with four adapters in rotation, and with one
// for every other row, each with its ratio to the first. The times are medians of interleaved runs, so that
// other load on the machine affects all of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "base/random.h"
#include "kernels/linear.h"
#include "kernels/low_rank.h"
#include "tensor/half_floats.h"

namespace pagoda::bench {
namespace {

constexpr std::int64_t kHidden = 2048, kQueries = 2048, kKv = 512, kInner = 8192;
constexpr int kAdapters = 4, kTurns = 15;

struct Layer {
  PackedLinear qkv, output, gate_up, down;
};

std::vector<float> floats(std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(random_uniform(1, i & 7, i)) - 0.5f;
  return out;
}

// All layers have equal weights, but in separate memory.
Layer make_layer(const KernelContext& context, DType stored, const std::vector<std::byte>& bytes,
                 std::int32_t first_slot) {
  const LinearType type = multiplies_in_int8(stored) ? LinearType::int8 : LinearType::bfloat16;
  std::int32_t slot = first_slot;
  const auto pack = [&](std::vector<std::int64_t> rows, std::int64_t k, LinearForm form) {
    std::vector<TensorView> views;
    for (const std::int64_t n : rows) views.push_back({stored, {n, k}, bytes.data()});
    auto packed = PackedLinear::pack(context, type, views, {}, form);
    if (!packed) std::abort();
    packed->set_adapter_slot(slot++);
    return *std::move(packed);
  };
  Layer layer;
  layer.qkv = pack({kQueries, kKv, kKv}, kHidden, LinearForm::stacked);
  layer.output = pack({kHidden}, kQueries, LinearForm::stacked);
  layer.gate_up = pack({kInner, kInner}, kHidden, LinearForm::gated);
  layer.down = pack({kHidden}, kInner, LinearForm::stacked);
  return layer;
}

AdapterFactors make_adapter(std::int32_t rank, int layers) {
  AdapterFactors out;
  const auto add = [&](std::vector<std::int64_t> rows, std::int64_t k) {
    LowRank& factors = out.matrices.emplace_back(LowRank::Type::bfloat16, k);
    std::int64_t first = 0;
    for (const std::int64_t n : rows) {
      const std::int32_t a = factors.add_right(floats(rank * k));
      factors.add_left(first, a, rank, floats(rank * n), 1e-3f);
      first += n;
    }
  };
  for (int layer = 0; layer < layers; ++layer) {
    add({kQueries, kKv, kKv}, kHidden);
    add({kHidden}, kQueries);
    add({kInner, kInner}, kHidden);
    add({kHidden}, kInner);
  }
  return out;
}

struct Buffers {
  std::vector<float> x, projected, between, norm;
};

double stamp_ms(const KernelContext& context) {
  timespec time;
  clock_gettime(context.pool == nullptr ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

double step(const KernelContext& context, const std::vector<Layer>& layers, std::int64_t rows,
            RowAdapters adapters, Buffers& buffers) {
  const double start = stamp_ms(context);
  const Buffer x = Buffer::of(buffers.x.data(), kHidden);
  for (const Layer& layer : layers) {
    LinearInput input = LinearInput::rows(buffers.x.data(), kHidden);
    input.op = LinearInput::Op::rms_norm;
    input.weight = buffers.norm.data();
    input.eps = 1e-5f;
    input.adapters = adapters;
    linear(context, layer.qkv, input, rows, Buffer::of(buffers.projected.data(), kQueries + 2 * kKv));
    LinearInput mixed = LinearInput::rows(buffers.projected.data(), kQueries);
    mixed.adapters = adapters;
    linear(context, layer.output, mixed, rows, x, {.accumulate = true});
    linear_pair(context, layer.gate_up, Activation::silu, layer.down, input, rows,
                Buffer::of(buffers.between.data(), kInner), x);
  }
  return stamp_ms(context) - start;
}

void run(int threads, std::int32_t rank, int num_layers) {
  ThreadPool pool(threads);
  KernelContext context;
  context.pool = threads > 1 ? &pool : nullptr;
  std::vector<AdapterFactors> adapters;
  for (int i = 0; i < kAdapters; ++i) adapters.push_back(make_adapter(rank, num_layers));
  std::printf("rank %d, %d layers, %d threads\n%-6s %5s %10s %18s %18s %18s\n", rank, num_layers, threads,
              "type", "rows", "none, ms", "one for all", "four by turns", "every other row");
  for (const DType stored : {DType::bf16, DType::q4_k}) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(dtype_bytes(stored, kInner * kHidden)));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 7919 >> 3) & 0x3b);
    std::vector<Layer> layers;
    for (int i = 0; i < num_layers; ++i) layers.push_back(make_layer(context, stored, bytes, 4 * i));
    for (const std::int64_t rows : {1, 4, 16, 64, 256}) {
      Buffers buffers = {floats(rows * kHidden), floats(rows * (kQueries + 2 * kKv)), floats(rows * kInner),
                         floats(kHidden)};
      const auto rows_count = static_cast<std::size_t>(rows);
      std::vector<const AdapterFactors*> ways[3];
      for (auto& way : ways) way.assign(rows_count, nullptr);
      for (std::size_t row = 0; row < rows_count; ++row) {
        ways[0][row] = &adapters[0];
        ways[1][row] = &adapters[row % kAdapters];
        if (row % 2 == 0) ways[2][row] = &adapters[0];
      }
      std::vector<double> times[4];
      for (int turn = 0; turn < kTurns; ++turn) {
        times[0].push_back(step(context, layers, rows, nullptr, buffers));
        for (int way = 0; way < 3; ++way)
          times[way + 1].push_back(step(context, layers, rows, ways[way].data(), buffers));
        std::ranges::fill(buffers.x, 0.5f);  // its values grow in each run
      }
      double median[4];
      for (int i = 0; i < 4; ++i) {
        std::ranges::nth_element(times[i], times[i].begin() + kTurns / 2);
        median[i] = times[i][kTurns / 2];
      }
      std::printf("%-6s %5ld %10.2f", dtype_info(stored).name.data(), static_cast<long>(rows), median[0]);
      for (int i = 1; i < 4; ++i) std::printf("   %8.2f %5.1f %%", median[i], 100 * median[i] / median[0]);
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  int threads = 1, rank = 16, layers = 4;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--rank") == 0) rank = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--layers") == 0) layers = std::atoi(argv[i + 1]);
  }
  pagoda::bench::run(threads, rank, layers);
}
