// Microseconds of products of one matrix, as JSON lines: y = x [rows, k] * weights [n, k], by the plain
// kernel, by tiles and by the device's library (bfloat16 only; left out without the library); for up to 16
// rows also by both forms for few rows (few_us, several_us). Enough copies of the weights are used that no
// cache holds them. bytes_per_s: weights read by tiles; flops: by tiles. A build with PAGODA_CUDA_LIBRARIES
// also runs CUTLASS and names its best kernel: bfloat16, and e4m3 by e4m3 where ours has inputs of bfloat16.
// Its inputs are prepared in advance, while library_us includes their rounding. cutlass_off: the largest
// difference from tiles, relative to the largest number (bfloat16; part of y). On the emulated device (for
// rehearsals) times are meaningless.
//   products_bench cuda|emulated [ROWS [WEIGHTS]]     1,16 q4_k,q6_k: only these
//   products_bench choices                            the sizes of choices.def in this build, as JSON
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench_main.h"
#include "device/kernel_launches.h"
#include "libraries/library_kernels.h"

namespace pagoda::device {
namespace {

struct Sizes {
  std::vector<std::pair<std::int32_t, std::int32_t>> matrices;  // n, k
  std::vector<std::int32_t> rows;
  std::int64_t bytes_of_weights, plain_flops;  // bytes of all copies; the limit for the plain kernel
  double seconds;                              // target duration of a measurement
};
// The matrices of Llama 3 8B: queries, keys and values; output; gate and up; down; head.
const Sizes kGpu = {{{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}},
                    {1, 2, 4, 8, 16, 32, 64, 128, 256, 2048},
                    std::int64_t{512} << 20,
                    std::int64_t{20} << 30,
                    0.02};
const Sizes kRehearsal = {{{72, 128}}, {1, 17}, 1 << 16, 1 << 30, 0};

struct Kind {
  const char* name;
  Element element;
  std::int64_t unit, unit_bytes;     // weights stored together, and their bytes; 0: a row
  std::int64_t numbers_at, numbers;  // within those: offset and number of floats

  // Likewise if a row of k weights is stored together.
  Kind of_rows(std::int32_t k) const {
    if (unit > 0) return *this;
    const std::int64_t bytes = KernelLaunches::row_bytes(element, k);
    if (element == Element::nvfp4) return {name, element, k, bytes, float4_scaled_factors(k), 3};
    return {name, element, k, bytes, k, element == Element::fp8 ? 1 : (bytes - k) / 4};
  }
};
constexpr Kind kKinds[] = {{"q4_k", Element::q4_k, kQuantizedUnit, sizeof(Quantized4K), 0, 2},
                           {"q5_k", Element::q5_k, kQuantizedUnit, sizeof(Quantized5K), 0, 2},
                           {"q6_k", Element::q6_k, kQuantizedUnit, sizeof(Quantized6K), 104, 1},
                           {"bf16", Element::bf16, kQuantizedGroup, 64, 0, 0},
                           {"q4", Element::q4, kQuantizedGroup, sizeof(Quantized4), 0, 2},
                           {"q8", Element::q8, kQuantizedGroup, sizeof(Quantized8), 0, 1},
                           {"fp8", Element::fp8, 0, 0, 0, 0},
                           {"fp8_blocks", Element::fp8_blocks, 0, 0, 0, 0},
                           {"nvfp4", Element::nvfp4, 0, 0, 0, 0}};

// The words between commas.
std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::stringstream rest(list);
  for (std::string word; std::getline(rest, word, ',');) words.push_back(word);
  return words;
}

constexpr std::int64_t kPart = std::int64_t{16} << 20;

class Bench {
 public:
  // `kinds`: names of weight types; empty: all.
  Bench(Device& device, const Sizes& sizes, std::vector<std::string> kinds)
      : device_(device), sizes_(sizes), kinds_(std::move(kinds)) {}
  // Adds the kernels of libraries, if the build has them; for a GPU.
  void add_libraries() { peers_ = cutlass_products(); }

  Status run() {
    auto stream = device_.create_stream();
    if (!stream) return stream.error();
    stream_ = *stream;
    library_ = device_.open_products().ok();
    for (const auto& [n, k] : sizes_.matrices)
      for (const Kind& kind : kKinds)
        if (kinds_.empty() || std::ranges::find(kinds_, kind.name) != kinds_.end())
          PAGODA_RETURN_IF_ERROR(matrix(kind.of_rows(k), n, k));
    return ok_status();
  }

 private:
  // Random, since zeros take less power: numbers below 2, or codes with a scale of 0.01. Repeats one part.
  Status fill(std::byte* to, std::int64_t bytes, const Kind& kind) {
    const std::int64_t part = std::min(bytes, kPart / kind.unit_bytes * kind.unit_bytes);
    auto host = device_.allocate_pinned(static_cast<std::size_t>(part));
    if (!host) return host.error();
    std::vector<float> numbers(static_cast<std::size_t>(std::max<std::int64_t>(2, kind.numbers)), 0.01f);
    if (kind.numbers == 2) numbers[1] = -0.08f;
    const bool codes = kind.element != Element::bf16;
    for (std::int64_t i = 0; i < part; i += 4) {
      const auto word = static_cast<std::uint32_t>(random_bits(3, 0, static_cast<std::uint64_t>(i))) &
                        (codes ? 0xFFFFFFFFu : 0xBFFFBFFFu);
      std::memcpy(*host + i, &word, 4);
    }
    for (std::int64_t i = 0; codes && i < part; i += kind.unit_bytes)
      std::memcpy(*host + i + kind.numbers_at, numbers.data(),
                  static_cast<std::size_t>(kind.numbers) * sizeof(float));
    for (std::int64_t i = 0; i < bytes; i += part)
      PAGODA_RETURN_IF_ERROR(
          device_.copy_in(stream_, to + i, *host, static_cast<std::size_t>(std::min(part, bytes - i))));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    return device_.free_pinned(*host);
  }

  // Microseconds of go(copy of the weights), the best of three.
  template <class Go>
  Result<double> timed(std::int64_t copies, const Go& go) {
    return timed(copies, go, [this] { return device_.synchronize(stream_); });
  }
  template <class Go, class Wait>
  Result<double> timed(std::int64_t copies, const Go& go, const Wait& wait) {
    double best = 0;
    std::int64_t count = 1;
    for (int round = 0; round < 4; ++round) {
      const TimeNs start = clock_.now();
      for (std::int64_t i = 0; i < count; ++i) PAGODA_RETURN_IF_ERROR(go(i % copies));
      PAGODA_RETURN_IF_ERROR(wait());
      const double seconds = to_seconds(clock_.now() - start) / static_cast<double>(count);
      if (round == 0)  // the first round loads the kernel
        count = std::clamp<std::int64_t>(static_cast<std::int64_t>(sizes_.seconds / 3 / seconds), 1, 100);
      else
        best = best == 0 ? seconds : std::min(best, seconds);
    }
    return 1e6 * best;
  }

  Status matrix(const Kind& kind, std::int32_t n, std::int32_t k) {
    const std::int64_t bytes = std::int64_t{n} * k / kind.unit * kind.unit_bytes;
    const std::int64_t stride = (bytes + 255) / 256 * 256,
                       copies = std::max<std::int64_t>(1, sizes_.bytes_of_weights / stride);
    const std::int64_t most = *std::max_element(sizes_.rows.begin(), sizes_.rows.end());
    std::vector<std::byte*> rooms;
    const std::int64_t inputs = std::max<std::int64_t>(
        most * k * 2, KernelLaunches::float8_input_bytes(Element::fp8_blocks, most, k));
    for (const std::int64_t size : {copies * stride, most * k * 4, inputs, most * n * 4}) {
      auto room = device_.allocate(static_cast<std::size_t>(size), "bench");
      if (!room) return room.error();
      rooms.push_back(*room);
    }
    PAGODA_RETURN_IF_ERROR(fill(rooms[0], bytes, kind));
    for (std::int64_t i = 1; i < copies; ++i)
      PAGODA_RETURN_IF_ERROR(
          device_.copy(stream_, rooms[0] + i * stride, rooms[0], static_cast<std::size_t>(bytes)));
    PAGODA_RETURN_IF_ERROR(fill(rooms[1], most * k * 4, kKinds[2]));
    for (const std::int32_t rows : sizes_.rows)
      PAGODA_RETURN_IF_ERROR(product(kind, n, k, rows, rooms, stride, copies));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    for (std::byte* const room : rooms) PAGODA_RETURN_IF_ERROR(device_.free(room));
    return ok_status();
  }

  Status product(const Kind& kind, std::int32_t n, std::int32_t k, std::int32_t rows,
                 const std::vector<std::byte*>& rooms, std::int64_t stride, std::int64_t copies) {
    KernelLaunches launches(device_, stream_);
    const double flops = 2.0 * rows * n * k;
    LinearArgs args;
    args.x = reinterpret_cast<const float*>(rooms[1]);
    args.y = reinterpret_cast<float*>(rooms[3]);
    args.rows = rows;
    args.n = n;
    args.k = k;
    args.rounded = reinterpret_cast<std::uint16_t*>(rooms[2]);
    const auto with = [&](std::int64_t copy) {
      args.weight = rooms[0] + copy * stride;
      return args;
    };
    auto tiles =
        timed(copies, [&](std::int64_t copy) { return launches.linear_tiles(kind.element, with(copy)); });
    if (!tiles) return tiles.error();
    const double bytes = static_cast<double>(std::int64_t{n} * k / kind.unit * kind.unit_bytes);
    std::printf(
        "{\"weights\": \"%s\", \"n\": %d, \"k\": %d, \"rows\": %d, \"tiles_us\": %.2f, \"bytes_per_s\": "
        "%.4g, "
        "\"flops\": %.4g",
        kind.name, n, k, rows, *tiles, 1e6 * bytes / *tiles, 1e6 * flops / *tiles);
    if (rows <= 16) {
      using Form = KernelLaunches::ProductForm;
      const bool few = KernelLaunches::product_form(rows, n) == Form::few;
      auto other = timed(copies, [&](std::int64_t copy) {
        return launches.linear_tiles(kind.element, with(copy), few ? Form::several : Form::few);
      });
      if (!other) return other.error();
      std::printf(", \"%s_us\": %.2f", few ? "several" : "few", *other);
    }
    if (flops <= static_cast<double>(sizes_.plain_flops)) {
      auto plain =
          timed(copies, [&](std::int64_t copy) { return launches.linear(kind.element, with(copy)); });
      if (!plain) return plain.error();
      std::printf(", \"plain_us\": %.2f", *plain);
    }
    if (kind.element >= Element::fp8 && device_.has_warpgroups()) {
      const QuantizeRowsArgs inputs = {.x = args.x,
                                       .out = reinterpret_cast<std::uint8_t*>(rooms[2]),
                                       .rows = rows,
                                       .width = k,
                                       .blocks = kind.element == Element::fp8_blocks ? 1 : 0};
      auto codes = timed(1, [&](std::int64_t) { return launches.quantize_rows(inputs); });
      if (!codes) return codes.error();
      auto eights =
          timed(copies, [&](std::int64_t copy) { return launches.linear_float8(kind.element, with(copy)); });
      if (!eights) return eights.error();
      std::printf(", \"quantize_us\": %.2f, \"w8a8_us\": %.2f, \"w8a8_flops\": %.4g", *codes, *eights,
                  1e6 * flops / *eights);
    }
    if (library_ && kind.element == Element::bf16) {
      auto library = timed(copies, [&](std::int64_t copy) -> Status {
        PAGODA_RETURN_IF_ERROR(launches.round_rows({.x = args.x, .out = args.rounded, .width = k}, rows));
        return device_.multiply(stream_, {.x = args.rounded,
                                          .weight = rooms[0] + copy * stride,
                                          .y = args.y,
                                          .rows = rows,
                                          .n = n,
                                          .k = k});
      });
      if (!library) return library.error();
      std::printf(", \"library_us\": %.2f", *library);
    }
    PAGODA_RETURN_IF_ERROR(by_libraries(kind, args, rooms, stride, copies));
    std::printf("}\n");
    std::fflush(stdout);
    return ok_status();
  }

  // A kernel that does not support these sizes is left out.
  Status by_libraries(const Kind& kind, const LinearArgs& args, const std::vector<std::byte*>& rooms,
                      std::int64_t stride, std::int64_t copies) {
    double best = 0;
    const ProductKernel* winner = nullptr;
    const bool compares = kind.element == Element::bf16;
    std::vector<float> wanted;
    for (const ProductKernel& kernel : peers_) {
      if (std::strcmp(kernel.weights, kind.name) != 0) continue;
      KernelLaunches launches(device_, stream_);
      PAGODA_RETURN_IF_ERROR(
          launches.round_rows({.x = args.x, .out = args.rounded, .width = args.k}, args.rows));
      if (compares && wanted.empty()) {
        LinearArgs first = args;
        first.weight = rooms[0];
        PAGODA_RETURN_IF_ERROR(launches.linear_tiles(kind.element, first));
        PAGODA_RETURN_IF_ERROR(read(args, wanted));
        PAGODA_RETURN_IF_ERROR(
            launches.round_rows({.x = args.x, .out = args.rounded, .width = args.k}, args.rows));
      }
      PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
      std::vector<std::unique_ptr<LibraryLaunch>> planned;
      for (std::int64_t copy = 0; copy < copies; ++copy) {
        auto launch = kernel.plan({.x = args.rounded,
                                   .weight = rooms[0] + copy * stride,
                                   .y = args.y,
                                   .rows = args.rows,
                                   .n = args.n,
                                   .k = args.k});
        if (!launch) break;
        planned.push_back(*std::move(launch));
      }
      if (std::cmp_less(planned.size(), copies)) continue;
      auto time = timed(
          copies, [&](std::int64_t copy) { return planned[static_cast<std::size_t>(copy)]->run(); },
          [] { return synchronize_libraries(); });
      if (!time) return time.error();
      if (winner == nullptr || *time < best) {
        winner = &kernel;
        best = *time;
      }
      if (!compares) continue;
      PAGODA_RETURN_IF_ERROR(planned[0]->run());
      PAGODA_RETURN_IF_ERROR(synchronize_libraries());
      std::vector<float> got;
      PAGODA_RETURN_IF_ERROR(read(args, got));
      float largest = 0, off = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        largest = std::max(largest, std::abs(wanted[i]));
        off = std::max(off, std::abs(wanted[i] - got[i]));
      }
      off_ = std::max(off_, largest > 0 ? off / largest : off);
    }
    if (winner != nullptr) std::printf(", \"cutlass_us\": %.2f, \"cutlass\": \"%s\"", best, winner->name);
    if (winner != nullptr && compares) std::printf(", \"cutlass_off\": %.2g", std::exchange(off_, 0.0f));
    return ok_status();
  }

  // Reads a part of y.
  Status read(const LinearArgs& args, std::vector<float>& to) {
    to.resize(static_cast<std::size_t>(std::min<std::int64_t>(std::int64_t{args.rows} * args.n, 1 << 16)));
    const std::size_t bytes = to.size() * sizeof(float);
    auto host = device_.allocate_pinned(bytes);
    if (!host) return host.error();
    PAGODA_RETURN_IF_ERROR(
        device_.copy_out(stream_, *host, reinterpret_cast<const std::byte*>(args.y), bytes));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    std::memcpy(to.data(), *host, bytes);
    return device_.free_pinned(*host);
  }

  Device& device_;
  const Sizes& sizes_;
  const std::vector<std::string> kinds_;
  StreamId stream_{};
  SteadyClock clock_;
  bool library_ = false;
  std::span<const ProductKernel> peers_;
  float off_ = 0;
};

int print_choices() {
  const char* before = "{";
  for (const KernelLaunches::Choice& choice : KernelLaunches::choices()) {
    std::printf("%s\"%s\": %d", before, choice.name, choice.value);
    before = ", ";
  }
  std::printf("}\n");
  return 0;
}

int main_of(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "choices") == 0) return print_choices();
  return bench_main("products_bench", " [ROWS [WEIGHTS]]", argc > 4, argc, argv,
                    [&](std::unique_ptr<Device> device, bool is_gpu) {
                      Sizes sizes = is_gpu ? kGpu : kRehearsal;
                      if (argc > 2) {
                        sizes.rows.clear();
                        for (const std::string& word : words_of(argv[2]))
                          sizes.rows.push_back(std::clamp(std::atoi(word.c_str()), 1, 1 << 16));
                        sizes.plain_flops = 0;
                      }
                      Bench bench(*device, sizes, argc > 3 ? words_of(argv[3]) : std::vector<std::string>());
                      if (is_gpu) bench.add_libraries();
                      return bench.run();
                    });
}

}  // namespace
}  // namespace pagoda::device

int main(int argc, char** argv) { return pagoda::device::main_of(argc, argv); }
