// Microseconds of decode attention of one layer over caches with three layouts, and of moving blocks to the
// host and back by block size, as JSON lines (Fig. 18a and 19a of PagedAttention, SOSP'23):
//   paged        blocks of 16 tokens, anywhere
//   virtual      the same blocks, adjacent in reserved addresses to which pages are mapped
//   contiguous   a sequence's tokens in one piece of allocated memory: one block as long as the context
// Then prefill attention of prompts, in tiles of warps and of warpgroups, if the device has them, over caches
// in bfloat16 and in 8-bit floats. A build with PAGODA_CUDA_LIBRARIES also runs FlashInfer over the same
// cache, with queries and results in bfloat16; flashinfer_off: the largest difference from tiles, relative to
// the largest number. On the emulated device (for rehearsals) times are meaningless.
//   attention_bench cuda|emulated
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench_main.h"
#include "device/kernel_launches.h"
#include "libraries/library_kernels.h"

namespace pagoda::device {
namespace {

struct Sizes {
  std::int32_t heads, kv_heads, head_size, layers, rounds;
  std::vector<std::int32_t> rows, contexts, blocks;  // blocks: tokens per block, for moves
  std::int32_t moved_tokens;
  std::vector<std::pair<std::int32_t, std::int32_t>> prompts;  // number of prompts, and tokens of each
};
const Sizes kGpu = {.heads = 32,
                    .kv_heads = 8,
                    .head_size = 128,
                    .layers = 32,
                    .rounds = 20,
                    .rows = {8, 32, 256},
                    .contexts = {64, 256, 576, 1024},
                    .blocks = {1, 2, 4, 8, 16, 32, 64, 128, 256},
                    .moved_tokens = 256,
                    .prompts = {{1, 512}, {4, 512}, {1, 2048}, {1, 4096}, {1, 16384}}};
const Sizes kRehearsal = {4, 2, 64, 2, 1, {2}, {20, 40}, {4, 16}, 16, {{2, 40}}};

constexpr std::int32_t kBlockSize = 16;

double micros_since(const SteadyClock& clock, TimeNs start) { return 1e6 * to_seconds(clock.now() - start); }

class Bench {
 public:
  Bench(Device& device, const Sizes& sizes, bool is_gpu)
      : device_(device), sizes_(sizes), has_libraries_(is_gpu && kHasLibraries) {}

  Status run() {
    auto stream = device_.create_stream();
    if (!stream) return stream.error();
    stream_ = *stream;
    for (const std::int32_t context : sizes_.contexts)
      for (const std::int32_t rows : sizes_.rows)
        for (const char* const memory : {"paged", "virtual", "contiguous"})
          PAGODA_RETURN_IF_ERROR(attention(memory, rows, context));
    for (const auto& [count, tokens] : sizes_.prompts)
      for (const Element cache : {Element::bf16, Element::fp8})
        PAGODA_RETURN_IF_ERROR(prefill(count, tokens, cache));
    for (const std::int32_t block : sizes_.blocks) PAGODA_RETURN_IF_ERROR(moves(block));
    return ok_status();
  }

 private:
  // Device memory that is freed at the end of a case.
  Result<std::byte*> room(std::int64_t bytes) {
    auto memory = device_.allocate(static_cast<std::size_t>(bytes), "bench");
    if (memory) memory_.push_back(*memory);
    return memory;
  }
  Result<std::byte*> pinned(std::int64_t bytes) {
    auto memory = device_.allocate_pinned(static_cast<std::size_t>(bytes));
    if (memory) pinned_.push_back(*memory);
    return memory;
  }
  Result<const std::int32_t*> put(const std::vector<std::int32_t>& values) {
    const std::size_t bytes = values.size() * sizeof(std::int32_t);
    auto host = pinned(static_cast<std::int64_t>(bytes));
    if (!host) return host.error();
    std::memcpy(*host, values.data(), bytes);
    auto there = room(static_cast<std::int64_t>(bytes));
    if (!there) return there.error();
    PAGODA_RETURN_IF_ERROR(device_.copy_in(stream_, *there, *host, bytes));
    return reinterpret_cast<const std::int32_t*>(*there);
  }
  // Device memory filled with numbers from -1 to 1, in bfloat16 or f32.
  Result<std::byte*> numbers(std::int64_t count, bool wide) {
    const std::int64_t bytes = count * (wide ? 4 : 2);
    auto host = pinned(bytes), there = room(bytes);
    if (!host) return host.error();
    if (!there) return there.error();
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      state = state * 1664525 + 1013904223;
      const float value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const auto half = static_cast<std::uint16_t>(bits >> 16);
      std::memcpy(*host + i * (wide ? 4 : 2), wide ? static_cast<const void*>(&bits) : &half, wide ? 4 : 2);
    }
    PAGODA_RETURN_IF_ERROR(device_.copy_in(stream_, *there, *host, static_cast<std::size_t>(bytes)));
    return there;
  }
  // Likewise in 8-bit floats below 2.
  Result<std::byte*> codes(std::int64_t count) {
    auto host = pinned(count), there = room(count);
    if (!host) return host.error();
    if (!there) return there.error();
    for (std::int64_t i = 0; i < count; ++i)
      (*host)[i] = static_cast<std::byte>(random_bits(7, 1, static_cast<std::uint64_t>(i)) & 0xBFu);
    PAGODA_RETURN_IF_ERROR(device_.copy_in(stream_, *there, *host, static_cast<std::size_t>(count)));
    return there;
  }
  // Fills the memory by repeating its first part.
  Status fill(std::byte* to, std::int64_t bytes) {
    const std::int64_t part = std::min(bytes, std::int64_t{1} << 20);
    auto some = numbers(part / 2, false);
    if (!some) return some.error();
    for (std::int64_t at = 0; at < bytes; at += part)
      PAGODA_RETURN_IF_ERROR(
          device_.copy(stream_, to + at, *some, static_cast<std::size_t>(std::min(part, bytes - at))));
    return ok_status();
  }
  Status clear() {
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    for (std::byte* const memory : memory_) PAGODA_RETURN_IF_ERROR(device_.free(memory));
    for (std::byte* const memory : pinned_) PAGODA_RETURN_IF_ERROR(device_.free_pinned(memory));
    memory_.clear();
    pinned_.clear();
    if (space_ == nullptr) return ok_status();
    const std::size_t page = device_.granule();
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      PAGODA_RETURN_IF_ERROR(device_.unmap(space_ + i * page, page));
      PAGODA_RETURN_IF_ERROR(device_.destroy_physical(pages_[i]));
    }
    pages_.clear();
    return device_.release(std::exchange(space_, nullptr));
  }
  Result<std::byte*> mapped(std::int64_t bytes) {
    const std::size_t page = device_.granule(), count = (static_cast<std::size_t>(bytes) + page - 1) / page;
    auto space = device_.reserve(count * page);
    if (!space) return space.error();
    space_ = *space;
    for (std::size_t i = 0; i < count; ++i) {
      auto memory = device_.create_physical(page);
      if (!memory) return memory.error();
      PAGODA_RETURN_IF_ERROR(device_.map(space_ + i * page, *memory));
      pages_.push_back(*memory);
      PAGODA_RETURN_IF_ERROR(device_.set_access(space_ + i * page, page));
    }
    return space_;
  }

  // Arguments for `tokens` rows of each of `sequences`, from position `first` on, whose blocks of the cache
  // are in consecutive or random order.
  Result<AttentionArgs> args_of(std::byte* cache, std::int32_t block_size, bool in_any_order,
                                std::int32_t sequences, std::int32_t first, std::int32_t tokens) {
    const std::int32_t width = (first + tokens + block_size - 1) / block_size;
    std::vector<std::int32_t> table, rows, tables_of_rows, positions;
    for (std::int32_t i = 0; i < sequences * width; ++i) table.push_back(i);
    if (in_any_order)
      for (std::size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[random_bits(7, 0, i) % i]);
    for (std::int32_t i = 0; i < sequences * tokens; ++i) {
      rows.push_back(i);
      tables_of_rows.push_back(i / tokens * width);
      positions.push_back(first + i % tokens);
    }
    table_ = table;
    auto tables = put(table), numbers = put(rows), of_rows = put(tables_of_rows), at = put(positions);
    for (const auto* const there : {&tables, &numbers, &of_rows, &at})
      if (!*there) return there->error();
    AttentionArgs args;
    args.cache = {.cache = cache,
                  .block_elements = block_elements(block_size),
                  .block_size = block_size,
                  .num_kv_heads = sizes_.kv_heads,
                  .head_size = sizes_.head_size};
    args.num_query_heads = sizes_.heads;
    args.block_tables = *tables;
    args.rows = *numbers;
    args.tables = *of_rows;
    args.positions = *at;
    return args;
  }
  std::int64_t block_elements(std::int32_t block_size) const {
    return std::int64_t{2} * sizes_.kv_heads * sizes_.head_size * block_size;
  }
  // Microseconds of a round, after one that is not counted.
  template <class Go>
  Result<double> timed(const Go& go) {
    return timed(go, [this] { return device_.synchronize(stream_); });
  }
  template <class Go, class Wait>
  Result<double> timed(const Go& go, const Wait& wait) {
    PAGODA_RETURN_IF_ERROR(go());
    PAGODA_RETURN_IF_ERROR(wait());
    const TimeNs start = clock_.now();
    for (std::int32_t i = 0; i < sizes_.rounds; ++i) PAGODA_RETURN_IF_ERROR(go());
    PAGODA_RETURN_IF_ERROR(wait());
    return micros_since(clock_, start) / sizes_.rounds;
  }

  // FlashInfer's part of the JSON row, for the same rows: empty without the library. args.out holds the
  // results by tiles; args.qkv is numbers().
  Result<std::string> by_library(const AttentionArgs& args, std::int32_t sequences, std::int32_t context,
                                 bool prompt) {
    if (!has_libraries_) return std::string();
    const std::int32_t rows = prompt ? sequences * context : sequences;
    const std::int32_t stride = (sizes_.heads + 2 * sizes_.kv_heads) * sizes_.head_size;
    const std::int64_t count = std::int64_t{rows} * sizes_.heads * sizes_.head_size;
    auto q = numbers(std::int64_t{rows} * stride, false), out = room(2 * count), ours = pinned(4 * count),
         theirs = pinned(2 * count);
    for (const auto* const there : {&q, &out, &ours, &theirs})
      if (!*there) return there->error();
    PAGODA_RETURN_IF_ERROR(device_.copy_out(stream_, *ours, reinterpret_cast<const std::byte*>(args.out),
                                            static_cast<std::size_t>(4 * count)));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    const LibraryAttention peer = {.q = *q,
                                   .cache = args.cache.cache,
                                   .out = *out,
                                   .block_elements = args.cache.block_elements,
                                   .q_stride = stride,
                                   .block_size = args.cache.block_size,
                                   .heads = sizes_.heads,
                                   .kv_heads = sizes_.kv_heads,
                                   .sequences = sequences,
                                   .context = context,
                                   .scale = args.scale,
                                   .table = table_};
    auto launch = prompt ? flashinfer_prefill(peer) : flashinfer_decode(peer);
    if (!launch) return launch.error();
    const auto time = timed([&] { return (*launch)->run(); }, [] { return synchronize_libraries(); });
    if (!time) return time.error();
    PAGODA_RETURN_IF_ERROR(device_.copy_out(stream_, *theirs, *out, static_cast<std::size_t>(2 * count)));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    float largest = 0, off = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      float wanted = 0;
      std::uint16_t half = 0;
      std::memcpy(&wanted, *ours + 4 * i, sizeof wanted);
      std::memcpy(&half, *theirs + 2 * i, sizeof half);
      const auto got = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
      largest = std::max(largest, std::abs(wanted));
      off = std::max(off, std::abs(wanted - got));
    }
    char said[96];
    std::snprintf(said, sizeof said, ", \"flashinfer_us\": %.2f, \"flashinfer_off\": %.2g", *time,
                  largest > 0 ? off / largest : off);
    return std::string(said);
  }

  Status attention(const std::string& memory, std::int32_t rows, std::int32_t context) {
    const std::int32_t block_size = memory == "contiguous" ? context : kBlockSize;
    const std::int64_t bytes =
        2 * rows * ((context + block_size - 1) / block_size) * block_elements(block_size);
    auto cache = memory == "virtual" ? mapped(bytes) : room(bytes);
    if (!cache) return cache.error();
    auto made = args_of(*cache, block_size, memory == "paged", rows, context - 1, 1);
    if (!made) return made.error();
    AttentionArgs args = *made;
    args.splits = (context - 1) / kSplitTokens + 1;
    PAGODA_RETURN_IF_ERROR(fill(*cache, bytes));
    args.scale = 0.09f;
    auto qkv = numbers(std::int64_t{rows} * (sizes_.heads + 2 * sizes_.kv_heads) * sizes_.head_size, true);
    if (!qkv) return qkv.error();
    args.qkv = reinterpret_cast<float*>(*qkv);
    auto out = room(std::int64_t{rows} * sizes_.heads * sizes_.head_size * 4);
    if (!out) return out.error();
    args.out = reinterpret_cast<float*>(*out);
    auto partial = room(4 * KernelLaunches::partial_floats(args, rows));
    if (!partial) return partial.error();
    args.partial = reinterpret_cast<float*>(*partial);
    const auto tickets = put(std::vector<std::int32_t>(static_cast<std::size_t>(rows * sizes_.kv_heads)));
    if (!tickets) return tickets.error();
    args.tickets = reinterpret_cast<std::uint32_t*>(const_cast<std::int32_t*>(*tickets));

    double micros[4] = {};
    for (std::size_t form = 0; form < std::size(micros); ++form) {
      KernelLaunches launches(device_, stream_);
      const auto go = [&] {
        return form == 0   ? launches.attend_splits(Element::bf16, args, rows)
               : form == 1 ? launches.attend_tile_decode(args, rows)
               : form == 2 ? launches.attend_tile_splits(args, rows)
                           : launches.attend_tile_walk(args, rows);
      };
      const auto time = timed(go);
      if (!time) return time.error();
      micros[form] = *time;
    }
    const auto peer = by_library(args, rows, context, false);
    if (!peer) return peer.error();
    std::printf(
        "{\"case\": \"attention\", \"memory\": \"%s\", \"rows\": %d, \"context\": %d, \"plain_us\": %.2f, "
        "\"tiles_us\": %.2f, \"splits_us\": %.2f, \"walk_us\": %.2f%s}\n",
        memory.c_str(), rows, context, micros[0], micros[1], micros[2], micros[3], peer->c_str());
    std::fflush(stdout);
    return clear();
  }

  Status prefill(std::int32_t prompts, std::int32_t tokens, Element element) {
    const std::int32_t all = prompts * tokens;
    const std::int64_t elements =
        prompts * ((tokens + kBlockSize - 1) / kBlockSize) * block_elements(kBlockSize);
    auto cache = element == Element::fp8 ? codes(elements) : numbers(elements, false);
    if (!cache) return cache.error();
    auto made = args_of(*cache, kBlockSize, true, prompts, 0, tokens);
    if (!made) return made.error();
    AttentionArgs args = *made;
    args.scale = 0.09f;
    auto qkv = numbers(std::int64_t{all} * (sizes_.heads + 2 * sizes_.kv_heads) * sizes_.head_size, true);
    if (!qkv) return qkv.error();
    args.qkv = reinterpret_cast<float*>(*qkv);
    const std::int64_t out_bytes = std::int64_t{all} * sizes_.heads * sizes_.head_size * 4;
    auto out = room(out_bytes), host = pinned(out_bytes);
    if (!out) return out.error();
    if (!host) return host.error();
    args.out = reinterpret_cast<float*>(*out);
    double micros[2] = {};
    std::vector<std::byte> wanted;
    bool same = true;
    KernelLaunches launches(device_, stream_);
    for (const bool bulk : {false, true}) {
      if (bulk && !launches.supports_bulk_attention(args.cache)) continue;
      const std::int32_t of_tile =
          bulk ? KernelLaunches::bulk_rows_of_tile(sizes_.heads, sizes_.kv_heads)
               : KernelLaunches::rows_of_tile(sizes_.heads, sizes_.kv_heads, sizes_.head_size);
      std::vector<std::int32_t> tiles;
      for (std::int32_t i = 0; i < all; ++i)
        if (i % tokens % of_tile == 0) tiles.push_back(i);
      const std::int64_t count = std::ssize(tiles);
      tiles.push_back(all);
      auto there = put(tiles);
      if (!there) return there.error();
      args.tiles = *there;
      const auto go = [&] {
        return bulk ? launches.attend_bulk(args, count, element)
                    : launches.attend_tiles(args, count, element);
      };
      const auto time = timed(go);
      if (!time) return time.error();
      micros[bulk ? 1 : 0] = *time;
      PAGODA_RETURN_IF_ERROR(device_.copy_out(stream_, *host, *out, static_cast<std::size_t>(out_bytes)));
      PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
      if (!bulk) wanted.assign(*host, *host + out_bytes);
      same = std::memcmp(wanted.data(), *host, wanted.size()) == 0;
    }
    Result<std::string> peer = std::string();
    if (element == Element::bf16) peer = by_library(args, prompts, tokens, true);
    if (!peer) return peer.error();
    // A causal mask leaves half of two products of tokens x tokens x head.
    const double flops = 2.0 * prompts * tokens * (tokens + 1.0) * sizes_.heads * sizes_.head_size;
    const auto tera = [&](double us) { return us > 0 ? flops / us * 1e-6 : 0.0; };
    std::printf(
        "{\"case\": \"prefill\", \"cache\": \"%s\", \"prompts\": %d, \"tokens\": %d, \"tiles_us\": %.2f, "
        "\"tiles_tflops\": %.1f, "
        "\"bulk_us\": %.2f, \"bulk_tflops\": %.1f, \"same_bits\": %s%s}\n",
        element == Element::fp8 ? "fp8" : "bf16", prompts, tokens, micros[0], tera(micros[0]), micros[1],
        tera(micros[1]), same ? "true" : "false", peer->c_str());
    std::fflush(stdout);
    return clear();
  }

  // Copies the blocks of all layers, one copy each, out and in again.
  Status moves(std::int32_t block_size) {
    const std::int64_t block =
        std::int64_t{2} * sizes_.layers * sizes_.kv_heads * sizes_.head_size * 2 * block_size;
    const std::int32_t count = sizes_.moved_tokens / block_size;
    auto there = room(count * block), here = pinned(count * block);
    if (!there) return there.error();
    if (!here) return here.error();
    double micros[2] = {1e30, 1e30};
    for (std::int32_t round = 0; round < 4; ++round)
      for (const bool in : {false, true}) {
        const TimeNs start = clock_.now();
        for (std::int32_t i = 0; i < count; ++i) {
          std::byte* const device = *there + i * block;
          std::byte* const host = *here + i * block;
          const auto bytes = static_cast<std::size_t>(block);
          PAGODA_RETURN_IF_ERROR(in ? device_.copy_in(stream_, device, host, bytes)
                                    : device_.copy_out(stream_, host, device, bytes));
        }
        PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
        micros[in ? 1 : 0] = std::min(micros[in ? 1 : 0], micros_since(clock_, start));
      }
    std::printf("{\"case\": \"swap\", \"block\": %d, \"tokens\": %d, \"out_us\": %.2f, \"in_us\": %.2f}\n",
                block_size, sizes_.moved_tokens, micros[0], micros[1]);
    std::fflush(stdout);
    return clear();
  }

  Device& device_;
  const Sizes& sizes_;
  const bool has_libraries_;
  std::vector<std::int32_t> table_;  // args_of() leaves its table here
  StreamId stream_{};
  SteadyClock clock_;
  std::vector<std::byte*> memory_, pinned_;
  std::byte* space_ = nullptr;
  std::vector<PhysicalId> pages_;
};

int main_of(int argc, char** argv) {
  return bench_main("attention_bench", "", argc > 2, argc, argv,
                    [](std::unique_ptr<Device> device, bool is_gpu) {
                      return Bench(*device, is_gpu ? kGpu : kRehearsal, is_gpu).run();
                    });
}

}  // namespace
}  // namespace pagoda::device

int main(int argc, char** argv) { return pagoda::device::main_of(argc, argv); }
