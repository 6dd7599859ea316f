// Microseconds of decode's attention of one layer over caches that lie in three ways, and of moving blocks to
// the host and back by block size, as JSON lines (Fig. 18a and 19a of PagedAttention, SOSP'23):
//   paged        blocks of 16 tokens, anywhere
//   virtual      the same blocks, side by side in reserved addresses that pages are mapped behind
//   contiguous   a sequence's tokens in one piece of allocated memory: one block as long as the context
// On the emulated device the numbers say nothing; it is there to rehearse.
//   attention_bench cuda|emulated
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "bench_main.h"
#include "device/kernel_launches.h"

namespace pagoda::device {
namespace {

struct Sizes {
  std::int32_t heads, kv_heads, head_size, layers, rounds;
  std::vector<std::int32_t> rows, contexts, blocks;  // tokens of a block, for moves
  std::int32_t moved_tokens;
};
const Sizes kGpu = {32, 8, 128, 32, 20, {8, 32}, {64, 128, 256, 1024}, {1, 2, 4, 8, 16, 32, 64, 128, 256},
                    256};
const Sizes kRehearsal = {4, 2, 16, 2, 1, {2}, {20, 40}, {4, 16}, 16};

constexpr std::int32_t kBlockSize = 16;

double micros_since(const SteadyClock& clock, TimeNs start) { return 1e6 * to_seconds(clock.now() - start); }

class Bench {
 public:
  Bench(Device& device, const Sizes& sizes) : device_(device), sizes_(sizes) {}

  Status run() {
    auto stream = device_.create_stream();
    if (!stream) return stream.error();
    stream_ = *stream;
    for (const std::int32_t context : sizes_.contexts)
      for (const std::int32_t rows : sizes_.rows)
        for (const char* const memory : {"paged", "virtual", "contiguous"})
          PAGODA_RETURN_IF_ERROR(attention(memory, rows, context));
    for (const std::int32_t block : sizes_.blocks) PAGODA_RETURN_IF_ERROR(moves(block));
    return ok_status();
  }

 private:
  // Device memory that is given back at the end of a case.
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

  Status attention(const std::string& memory, std::int32_t rows, std::int32_t context) {
    const std::int32_t block_size = memory == "contiguous" ? context : kBlockSize;
    const std::int32_t width = (context + block_size - 1) / block_size, blocks = rows * width;
    const std::int64_t block_elements = std::int64_t{2} * sizes_.kv_heads * sizes_.head_size * block_size;
    auto cache =
        memory == "virtual" ? mapped(blocks * block_elements * 2) : room(blocks * block_elements * 2);
    if (!cache) return cache.error();
    std::vector<std::int32_t> table, all_rows, tables_of_rows,
        positions(static_cast<std::size_t>(rows), context - 1);
    for (std::int32_t i = 0; i < blocks; ++i) table.push_back(i);
    if (memory == "paged")
      for (std::size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[random_bits(7, 0, i) % i]);
    for (std::int32_t i = 0; i < rows; ++i) {
      all_rows.push_back(i);
      tables_of_rows.push_back(i * width);
    }

    AttentionArgs args;
    args.cache = {.cache = *cache,
                  .block_elements = block_elements,
                  .block_size = block_size,
                  .num_kv_heads = sizes_.kv_heads,
                  .head_size = sizes_.head_size};
    args.num_query_heads = sizes_.heads;
    args.splits = (context - 1) / kSplitTokens + 1;
    auto tables = put(table), numbers = put(all_rows), of_rows = put(tables_of_rows), at = put(positions);
    if (!tables) return tables.error();
    if (!numbers) return numbers.error();
    if (!of_rows) return of_rows.error();
    if (!at) return at.error();
    args.block_tables = *tables;
    args.rows = *numbers;
    args.tables = *of_rows;
    args.positions = *at;
    auto qkv = room(std::int64_t{rows} * (sizes_.heads + 2 * sizes_.kv_heads) * sizes_.head_size * 4);
    if (!qkv) return qkv.error();
    args.qkv = reinterpret_cast<float*>(*qkv);
    auto out = room(std::int64_t{rows} * sizes_.heads * sizes_.head_size * 4);
    if (!out) return out.error();
    args.out = reinterpret_cast<float*>(*out);
    auto partial = room(4 * KernelLaunches::partial_floats(args, rows));
    if (!partial) return partial.error();
    args.partial = reinterpret_cast<float*>(*partial);

    double micros[4] = {};
    for (std::size_t form = 0; form < std::size(micros); ++form) {
      KernelLaunches launches(device_, stream_);
      const auto go = [&] {
        return form == 0   ? launches.attend_splits(Element::bf16, args, rows)
               : form == 1 ? launches.attend_tile_decode(args, rows)
               : form == 2 ? launches.attend_tile_splits(args, rows)
                           : launches.attend_tile_walk(args, rows);
      };
      PAGODA_RETURN_IF_ERROR(go());
      PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
      const TimeNs start = clock_.now();
      for (std::int32_t i = 0; i < sizes_.rounds; ++i) PAGODA_RETURN_IF_ERROR(go());
      PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
      micros[form] = micros_since(clock_, start) / sizes_.rounds;
    }
    std::printf(
        "{\"case\": \"attention\", \"memory\": \"%s\", \"rows\": %d, \"context\": %d, \"plain_us\": %.2f, "
        "\"tiles_us\": %.2f, \"splits_us\": %.2f, \"walk_us\": %.2f}\n",
        memory.c_str(), rows, context, micros[0], micros[1], micros[2], micros[3]);
    std::fflush(stdout);
    return clear();
  }

  // Blocks of all layers, a copy each, out and in again.
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
  StreamId stream_{};
  SteadyClock clock_;
  std::vector<std::byte*> memory_, pinned_;
  std::byte* space_ = nullptr;
  std::vector<PhysicalId> pages_;
};

int main_of(int argc, char** argv) {
  return bench_main("attention_bench", "", argc > 2, argc, argv,
                    [](std::unique_ptr<Device> device, bool is_gpu) {
                      return Bench(*device, is_gpu ? kGpu : kRehearsal).run();
                    });
}

}  // namespace
}  // namespace pagoda::device

int main(int argc, char** argv) { return pagoda::device::main_of(argc, argv); }
