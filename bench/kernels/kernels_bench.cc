// Rates of the kernels on the shapes of SmolLM2-135M, compared with the measured peak and memory bandwidth.
//   kernels_bench [--threads N] [--level avx512|avx2|portable] [--only SUBSTRING] [--seconds S]
//                 [--rotate-mib N]
// Weights rotate over more memory than fits into the caches, as in decode. Prints the best run of each case.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/dequantize.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/logits.h"
#include "kernels/paged_attention.h"
#include "peak.h"
#include "tensor/memory.h"

namespace pagoda::bench {
namespace {

struct Options {
  int threads = 1;
  CpuLevel level = detected_cpu_level();
  std::string only;
  double seconds = 0.15;
  std::int64_t rotate_mib = 96;  // weights rotate over this much memory; 0: they stay in the caches
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The measured time: CPU time if this is the only thread, so that other processes on its core disturb less;
// otherwise wall time.
double stamp(const Options& options) {
  if (options.threads > 1) return now();
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Shortest time of one call.
double best_time(const Options& options, const std::function<void()>& body) {
  body();
  double best = 1e9;
  const double end = stamp(options) + options.seconds;
  int calls = 0;
  while (stamp(options) < end || calls < 3) {
    const double start = stamp(options);
    body();
    best = std::min(best, stamp(options) - start);
    ++calls;
  }
  return best;
}

// Nearly normally distributed, like activations: products of K types depend on it (RowPeaks in
// linear_tile.h).
std::vector<float> floats(std::size_t count) {
  std::vector<float> out(count, -2.0f);
  for (std::size_t i = 0; i < count; ++i)
    for (std::uint64_t j = 0; j < 4; ++j) out[i] += static_cast<float>(random_uniform(j, 2, i));
  return out;
}

double bandwidth(const Options& options, const KernelContext& context) {
  static const Memory memory = [] {  // in huge pages, as weights are
    auto reserved = Memory::reserve(std::size_t{256} << 20);
    CHECK(reserved);
    std::memset(reserved->data(), 1, reserved->size());
    return *std::move(reserved);
  }();
  volatile float sink = 0;
  double best = 0;
  for (int i = 0; i < 4; ++i) {
    const double start = stamp(options);
    constexpr std::size_t kPieces = 256;
    const auto read = [&](std::int64_t tile, int) {
      sink = read_all(memory.data() + static_cast<std::size_t>(tile) * (memory.size() / kPieces),
                      memory.size() / kPieces);
    };
    if (context.pool != nullptr) {
      context.pool->parallel_for(kPieces, read);
    } else {
      for (std::size_t p = 0; p < kPieces; ++p) read(static_cast<std::int64_t>(p), 0);
    }
    best = std::max(best, static_cast<double>(memory.size()) / (stamp(options) - start) * 1e-9);
  }
  return best;
}

struct Case {
  const char* name;
  LinearType type;
  DType stored;
};

void bench_linear(const Options& options, const KernelContext& context, const Peak& peak, double gbps) {
  const Case cases[] = {{"f32", LinearType::float32, DType::f32}, {"bf16", LinearType::bfloat16, DType::bf16},
                        {"int8", LinearType::int8, DType::bf16},  {"q8_0", LinearType::int8, DType::q8_0},
                        {"q4_0", LinearType::int8, DType::q4_0},  {"q4_1", LinearType::int8, DType::q4_1},
                        {"q6_k", LinearType::int8, DType::q6_k}};
  struct Shape {
    std::int64_t n, k;
  };
  const Shape shapes[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}, {49152, 576}};
  std::printf("\n%-6s %12s %8s", "type", "N x K", "");
  for (const int m : {1, 4, 8, 16, 64, 512}) std::printf("   M=%-11d", m);
  std::printf("\n");
  for (const Case& c : cases) {
    for (const Shape& s : shapes) {
      const std::int64_t k = c.stored == DType::q6_k ? (s.k + 255) / 256 * 256 : s.k;
      char label[64];
      std::snprintf(label, sizeof label, "%s %ldx%ld", c.name, static_cast<long>(s.n), static_cast<long>(k));
      if (std::string(label).find(options.only) == std::string::npos) continue;
      std::vector<std::byte> bytes(static_cast<std::size_t>(dtype_bytes(c.stored, s.n * k)));
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>((i * 7919 >> 3) & 0x3b);
      const TensorView view{c.stored, {s.n, k}, bytes.data()};
      std::vector<PackedLinear> copies;
      double pack_time = 1e9;
      std::int64_t total = 0;
      while (copies.empty() || total < (options.rotate_mib << 20)) {
        const double start = stamp(options);
        auto packed = PackedLinear::pack(context, c.type, {&view, 1});
        if (!packed) std::abort();
        pack_time = std::min(pack_time, stamp(options) - start);
        total += packed->packed_bytes();
        copies.push_back(std::move(*packed));
      }
      const double limit = c.type == LinearType::float32    ? peak.fma_gflops
                           : c.type == LinearType::bfloat16 ? peak.bf16_gflops
                                                            : peak.int8_gops;
      std::printf("%-6s %6ldx%-5ld pack %4.1f", c.name, static_cast<long>(s.n), static_cast<long>(k),
                  static_cast<double>(copies[0].packed_bytes()) / pack_time * 1e-9);
      for (const std::int64_t m : {1, 4, 8, 16, 64, 512}) {
        const std::vector<float> x = floats(static_cast<std::size_t>(m * k));
        std::vector<float> y(static_cast<std::size_t>(m * s.n));
        std::size_t next = 0;
        const double seconds = best_time(options, [&] {
          linear(context, copies[next], LinearInput::rows(x.data(), k), m,
                 Buffer::of(y.data(), copies[next].n()));
          next = (next + 1) % copies.size();
        });
        const double rate = 2.0 * static_cast<double>(m * s.n * k) / seconds * 1e-9;
        const double read = static_cast<double>(copies[0].packed_bytes()) / seconds * 1e-9;
        if (m == 1) {
          std::printf("  %5.1fGB/s %3.0f%%", read, 100 * read / gbps);
        } else {
          std::printf("  %5.0f %3.0f%%    ", rate, 100 * rate / (limit * options.threads));
        }
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

// Every quantised type on one shape: microseconds per call, and the ratio to interleaved calls with Q8_0 or,
// for types that are converted to bfloat16, with BF16.
void bench_panels(const Options& options, const KernelContext& context) {
  constexpr std::int64_t kN = 2048, kK = 4096;
  constexpr std::int64_t kRows[] = {1, 2, 4, 6, 8, 12, 16, 24, 32, 64};
  if (options.only.find("panels") == std::string::npos) return;
  const std::string wanted = options.only.substr(std::min(options.only.size(), options.only.find(' ') + 1));
  std::printf("\npanels %ldx%ld: time, and over Q8_0's or BF16's\n%-8s", static_cast<long>(kN),
              static_cast<long>(kK), "type");
  for (const std::int64_t m : kRows) std::printf("  M=%-12ld", static_cast<long>(m));
  std::printf("\n");
  const auto copies_of = [&](DType stored) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(dtype_bytes(stored, kN * kK)));
    // Float codes get similar scales, so that they can use their own panels.
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(multiplies_in_int8(stored) ? (i * 7919 >> 3) & 0x3b : 0x33);
    // 8-bit integers as in W8A8 folders: one scale per row of weights and inputs.
    const bool w8a8 = stored == DType::int8;
    const float scale = 0.01f;
    for (std::size_t at = 0; w8a8 && at < bytes.size(); at += 36) std::memcpy(bytes.data() + at, &scale, 4);
    const TensorView view{stored, {kN, kK}, bytes.data()};
    std::vector<PackedLinear> copies;
    for (std::int64_t total = 0; copies.empty() || total < options.rotate_mib << 20;) {
      auto packed = PackedLinear::pack(
          context, multiplies_in_int8(stored) ? LinearType::int8 : LinearType::bfloat16, {&view, 1}, {},
          LinearForm::stacked, {.number = w8a8 ? InputNumber::int8 : InputNumber::own});
      CHECK(packed);
      total += packed->packed_bytes();
      copies.push_back(std::move(*packed));
    }
    return copies;
  };
  const std::vector<PackedLinear> bytes = copies_of(DType::q8_0), halves = copies_of(DType::bf16);
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    const auto stored = static_cast<DType>(i);
    if (!is_quantized(stored) || (wanted != options.only && wanted.find(kDTypes[i].name) == wanted.npos))
      continue;
    const std::vector<PackedLinear> copies = copies_of(stored);
    std::printf("%-8s", std::string(kDTypes[i].name).c_str());
    for (const std::int64_t m : kRows) {
      const std::vector<float> x = floats(static_cast<std::size_t>(m * kK));
      std::vector<float> y(static_cast<std::size_t>(m * kN));
      const auto time = [&](const std::vector<PackedLinear>& of) {
        std::size_t next = 0;
        return best_time(options, [&] {
          linear(context, of[next++ % of.size()], LinearInput::rows(x.data(), kK), m,
                 Buffer::of(y.data(), kN));
        });
      };
      double own = 1e9, wide = 1e9;
      for (int turn = 0; turn < 3; ++turn) {
        own = std::min(own, time(copies));
        wide = std::min(wide, time(multiplies_in_int8(stored) ? bytes : halves));
      }
      std::printf("  %7.0f %5.2f ", own * 1e6, own / wide);
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}

struct Heads {
  int query, kv, size;
};
void bench_attention(const Options& options, const KernelContext& context, const Peak& peak,
                     const Heads& heads) {
  if (std::string("attention").find(options.only) == std::string::npos) return;
  std::printf("\nattention, %d query heads, %d KV heads of %d, block 16\n", heads.query, heads.kv,
              heads.size);
  const std::int64_t queries = heads.query * heads.size, width = queries + 2 * heads.kv * heads.size;
  struct Load {
    int sequences, queries, context;
    int shared = 0;  // tokens of a common prefix, in the same blocks
  };
  for (const DType dtype : {DType::bf16, DType::i8, DType::f16, DType::f32}) {
    for (const Load& load : {Load{1, 1, 160}, Load{1, 1, 2000}, Load{16, 1, 160}, Load{64, 1, 160},
                             Load{64, 1, 544}, Load{64, 1, 1184}, Load{64, 1, 1184, 1024}, Load{1, 64, 64},
                             Load{1, 512, 512}, Load{1, 64, 2000}}) {
      const KvLayout layout{dtype, 30, heads.kv, heads.size, 16};
      const std::int32_t blocks = (load.context + 15) / 16;
      // Like the model runner's pool: resident huge pages.
      auto cache = Memory::reserve(layout.block_bytes() * static_cast<std::size_t>(blocks * load.sequences));
      if (!cache) std::abort();
      std::memset(cache->data(), 0, cache->size());
      std::vector<std::int32_t> table(static_cast<std::size_t>(blocks * load.sequences));
      for (std::size_t i = 0; i < table.size(); ++i)
        table[i] = static_cast<std::int32_t>(i * 7 % table.size());
      std::vector<AttentionSequence> sequences;
      for (int s = 0; s < load.sequences; ++s) {
        std::copy_n(table.begin(), load.shared / 16, table.begin() + s * blocks);
        sequences.push_back({s * load.queries, load.queries, load.context, table.data() + s * blocks});
      }
      const auto rows = static_cast<std::size_t>(load.sequences * load.queries);
      const std::vector<float> qkv = floats(rows * static_cast<std::size_t>(width));
      std::vector<float> out(rows * static_cast<std::size_t>(queries));
      PagedAttentionArgs args;
      args.layout = layout;
      args.cache = cache->data();
      args.sequences = sequences;
      args.query = Buffer::of(qkv.data(), width);
      args.key = args.query.at(0, queries);
      args.value = args.query.at(0, (queries + width) / 2);
      args.num_query_heads = heads.query;
      args.scale = 1.0f / std::sqrt(static_cast<float>(heads.size));
      args.output = Buffer::of(out.data(), queries);
      const double seconds = best_time(options, [&] {
        args.layer = (args.layer + 1) % layout.num_layers;
        paged_attention(context, args);
      });
      double pairs = 0;  // (query, token)
      for (int q = 0; q < load.queries; ++q) pairs += load.context - load.queries + q + 1;
      const double flops = pairs * load.sequences * queries * 4;
      const double bytes =
          static_cast<double>(load.context) * load.sequences * static_cast<double>(layout.layer_bytes()) / 16;
      // 8 bits: two digits of queries and weights, so two products.
      const double limit = dtype == DType::bf16 ? peak.bf16_gflops
                           : dtype == DType::i8 ? peak.int8_gops / 2
                                                : peak.fma_gflops;
      std::printf(
          "%-4s %3d seqs x %3d queries, context %4d, shared %4d: %8.1f us  %6.1f GB/s  %6.1f GFLOP/s "
          "%3.0f%%\n",
          std::string(dtype_info(dtype).name).c_str(), load.sequences, load.queries, load.context,
          load.shared, seconds * 1e6, bytes / seconds * 1e-9, flops / seconds * 1e-9,
          100 * flops / seconds * 1e-9 / (limit * options.threads));
    }
  }
}

// The heads of DeepSeek-V2-Lite, and the 20 heads of GLM-4.7-Flash: a row of 512 + 64 for all heads. The
// bytes read are reported as a share of the measured read bandwidth.
void bench_latent_attention(const Options& options, const KernelContext& context, const Peak& peak) {
  if (std::string("latent").find(options.only) == std::string::npos) return;
  std::printf("\nlatent attention, rows of 512 + 64, block 16\n");
  struct Load {
    int sequences, queries, context, heads = 16;
  };
  constexpr int kRow = 576, kLatent = 512;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const Load& load :
         {Load{1, 1, 160}, Load{1, 1, 2000}, Load{1, 1, 16000}, Load{16, 1, 1184}, Load{16, 1, 1184, 1},
          Load{16, 1, 1184, 20}, Load{1, 256, 256}, Load{1, 64, 2000}}) {
      const KvLayout layout{dtype, 8, 1, kRow, 16, kLatent};
      const std::int32_t blocks = (load.context + 15) / 16;
      auto cache = Memory::reserve(layout.block_bytes() * static_cast<std::size_t>(blocks * load.sequences));
      if (!cache) std::abort();
      std::memset(cache->data(), 0, cache->size());
      std::vector<std::int32_t> table(static_cast<std::size_t>(blocks * load.sequences));
      for (std::size_t i = 0; i < table.size(); ++i)
        table[i] = static_cast<std::int32_t>(i * 7 % table.size());
      std::vector<AttentionSequence> sequences;
      for (int s = 0; s < load.sequences; ++s)
        sequences.push_back({s * load.queries, load.queries, load.context, table.data() + s * blocks});
      const auto rows = static_cast<std::size_t>(load.sequences * load.queries);
      const auto width = static_cast<std::size_t>(kRow * (load.heads + 1));
      const std::vector<float> inputs = floats(rows * width);
      std::vector<float> out(rows * static_cast<std::size_t>(load.heads * kLatent));
      PagedAttentionArgs args;
      args.layout = layout;
      args.cache = cache->data();
      args.sequences = sequences;
      args.query = Buffer::of(inputs.data(), static_cast<std::int64_t>(width));
      args.key = args.query.at(0, load.heads * kRow);
      args.num_query_heads = load.heads;
      args.scale = 0.07f;
      args.output = Buffer::of(out.data(), load.heads * kLatent);
      const double seconds = best_time(options, [&] {
        args.layer = (args.layer + 1) % layout.num_layers;
        paged_attention(context, args);
      });
      double pairs = 0;  // (query, token)
      for (int q = 0; q < load.queries; ++q) pairs += load.context - load.queries + q + 1;
      const double flops = pairs * load.sequences * load.heads * 2 * (kRow + kLatent);
      const double bytes =
          static_cast<double>(load.context) * load.sequences * static_cast<double>(layout.layer_bytes()) / 16;
      const double limit = dtype == DType::bf16 ? peak.bf16_gflops : peak.fma_gflops;
      std::printf(
          "%-4s %3d seqs x %3d queries, %2d heads, context %5d: %9.1f us  %6.1f GB/s  %6.1f GFLOP/s "
          "%3.0f%%\n",
          std::string(dtype_info(dtype).name).c_str(), load.sequences, load.queries, load.heads, load.context,
          seconds * 1e6, bytes / seconds * 1e-9, flops / seconds * 1e-9,
          100 * flops / seconds * 1e-9 / (limit * options.threads));
    }
  }
}

void bench_rows(const Options& options, const KernelContext& context) {
  if (std::string("rows").find(options.only) == std::string::npos) return;
  std::printf("\nrow-wise ops, microseconds\n");
  const std::vector<float> x = floats(64 * 576), w = floats(576), logits = floats(49152);
  std::vector<float> out(64 * 576);
  for (const std::int64_t rows : {1, 64}) {
    const double norm = best_time(options, [&] {
      rms_norm(context, Buffer::of(x.data(), 576), rows, 576, w.data(), 1e-5f, Buffer::of(out.data(), 576));
    });
    std::printf("%2ld rows: rms_norm 576 %.2f\n", static_cast<long>(rows), norm * 1e6);
  }
  const double largest = best_time(options, [&] { max_logit(context, logits); });
  const double lse = best_time(options, [&] { log_sum_exp(context, logits); });
  const double top = best_time(options, [&] { top_logits(context, logits, 50); });
  std::printf("49152 logits: max %.2f, log_sum_exp %.2f, top 50 %.2f\n", largest * 1e6, lse * 1e6, top * 1e6);
  if (context.pool != nullptr) {
    const double barrier =
        best_time(options, [&] { context.pool->parallel_for(4, [](std::int64_t, int) {}); });
    std::printf("empty parallel_for of 4 tiles: %.2f\n", barrier * 1e6);
  }
}

int run(const Options& options) {
  ThreadPool pool(options.threads);
  const KernelContext context{
      .backend = Backend::cpu, .level = options.level, .pool = options.threads > 1 ? &pool : nullptr};
  const Peak peak = measure_peak(options.level);
  const double gbps = bandwidth(options, context);
  std::printf(
      "%s, %d threads. Peak of one thread: f32 %.0f, bf16 %.0f GFLOP/s, int8 %.0f GOP/s. Read %.1f GB/s.\n",
      std::string(cpu_level_name(options.level)).c_str(), options.threads, peak.fma_gflops, peak.bf16_gflops,
      peak.int8_gops, gbps);
  bench_linear(options, context, peak, gbps);
  for (const Heads& heads : {Heads{9, 3, 64}, Heads{4, 1, 256}})
    bench_attention(options, context, peak, heads);
  bench_latent_attention(options, context, peak);
  bench_panels(options, context);
  bench_rows(options, context);
  std::printf("\nRead after: %.1f GB/s.\n", bandwidth(options, context));
  return 0;
}

}  // namespace
}  // namespace pagoda::bench

int main(int argc, char** argv) {
  pagoda::bench::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--threads") options.threads = std::max(1, std::atoi(value.c_str()));
    if (name == "--only") options.only = value;
    if (name == "--rotate-mib") options.rotate_mib = std::atoi(value.c_str());
    if (name == "--seconds") options.seconds = std::atof(value.c_str());
    if (name == "--level") options.level = pagoda::cpu_level_named(value).value_or(options.level);
  }
  return pagoda::bench::run(options);
}
