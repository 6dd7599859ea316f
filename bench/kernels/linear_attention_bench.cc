// Time of linear attention (gated delta nets) on the shapes of Qwen3.5-35B-A3B, for the states of all layers
// of a sequence: with one token per step, which moves every state through memory, and with many, which keep a
// tile of the state in the nearest cache.
//   linear_attention_bench [--threads N] [--level avx512|avx2|portable] [--tokens N] [--layers N] [--heads N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/linear_attention.h"
#include "tensor/memory.h"

namespace pagoda::bench {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Shape {
  std::int32_t layers = 30, heads = 32, key_heads = 16, size = 128, tokens = 512;
};

class Model {
 public:
  explicit Model(const Shape& shape) : shape_(shape) {
    const auto piece = static_cast<std::size_t>(shape.size * shape.size);
    auto memory =
        Memory::reserve(piece * sizeof(float) * static_cast<std::size_t>(shape.layers * shape.heads));
    if (!memory) std::exit(1);
    states_ = *std::move(memory);
    std::memset(states_.data(), 0, states_.size());
    for (std::int32_t i = 0; i < shape.layers * shape.heads; ++i)
      pieces_.push_back(states_.as<float>() + static_cast<std::size_t>(i) * piece);
    stride_ = static_cast<std::int64_t>(2 * shape.key_heads + shape.heads) * shape.size;
    const auto rows = static_cast<std::size_t>(shape.tokens);
    for (std::size_t i = 0; i < rows * static_cast<std::size_t>(stride_); ++i)
      entered_.push_back((static_cast<float>(random_uniform(1, 2, i)) - 0.5f) * 0.3f);
    for (std::size_t i = 0; i < rows * static_cast<std::size_t>(2 * shape.heads); ++i)
      gates_.push_back(static_cast<float>(random_uniform(1, 3, i)));
    output_.resize(rows * static_cast<std::size_t>(shape.heads * shape.size));
  }

  // Returns the seconds for these tokens through all layers.
  double run(const KernelContext& context, std::int32_t first, std::int32_t count) {
    const StateSequence sequence = {.first_row = first, .num_rows = count, .pieces = pieces_.data()};
    const std::int64_t keys = std::int64_t{shape_.key_heads} * shape_.size;
    const Buffer row = Buffer::of(entered_.data(), stride_),
                 gates = Buffer::of(gates_.data(), 2 * shape_.heads);
    const double start = now();
    for (std::int32_t layer = 0; layer < shape_.layers; ++layer)
      linear_attention(context,
                       {.num_heads = shape_.heads,
                        .num_key_heads = shape_.key_heads,
                        .key_size = shape_.size,
                        .value_size = shape_.size,
                        .delta_rule = true,
                        .query = row,
                        .key = row.at(0, keys),
                        .value = row.at(0, 2 * keys),
                        .decay = gates,
                        .weight = gates.at(0, shape_.heads),
                        .output = Buffer::of(output_.data(), std::int64_t{shape_.heads} * shape_.size),
                        .states = {.sequences = {&sequence, 1}, .first_piece = layer * shape_.heads}});
    return now() - start;
  }

 private:
  Shape shape_;
  Memory states_;
  std::vector<float*> pieces_;
  std::int64_t stride_ = 0;
  std::vector<float> entered_, gates_, output_;
};

int main_of(int argc, char** argv) {
  Shape shape;
  int threads = 1;
  CpuLevel level = detected_cpu_level();
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const char* value = argv[i + 1];
    if (flag == "--threads") threads = std::atoi(value);
    if (flag == "--tokens") shape.tokens = std::atoi(value);
    if (flag == "--layers") shape.layers = std::atoi(value);
    if (flag == "--heads") shape.heads = std::atoi(value);
    if (flag == "--level") level = cpu_level_named(value).value_or(level);
  }
  ThreadPool pool(threads);
  const KernelContext context = {.level = level, .pool = threads > 1 ? &pool : nullptr};
  Model model(shape);
  model.run(context, 0, 1);
  double best_single = 1e9, best_many = 1e9;
  for (int round = 0; round < 5; ++round) {
    double single = 0;
    constexpr std::int32_t kSteps = 64;
    for (std::int32_t i = 0; i < kSteps; ++i) single += model.run(context, i % shape.tokens, 1);
    best_single = std::min(best_single, single / kSteps);
    best_many = std::min(best_many, model.run(context, 0, shape.tokens) / shape.tokens);
  }
  std::printf("%s, %d threads, %d layers of %d heads of %d x %d\n",
              std::string(cpu_level_name(level)).c_str(), threads, shape.layers, shape.heads, shape.size,
              shape.size);
  std::printf("one token a step   %7.3f ms a token\n", best_single * 1e3);
  std::printf("%4d tokens a step %7.3f ms a token, %.1f times as fast\n", shape.tokens, best_many * 1e3,
              best_single / best_many);
  return 0;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) { return pagoda::bench::main_of(argc, argv); }
