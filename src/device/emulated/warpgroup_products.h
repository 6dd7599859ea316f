#pragma once
// WarpgroupProducts: matrix products of warpgroups (wgmma), four warps beginning at a multiple of four, which
// run beside their threads until these wait. A product is computed when its thread waits, as late as
// possible; until then its sums are NaN. Faults: sums that are new, or were changed without products_fence();
// another product than the other threads of the warpgroup have; unsuitable layouts; a thread that ends with
// products in flight; a warpgroup of which some threads did not multiply. ClusterCopies checks accesses to
// the matrices. Threads: the block's runner. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix
// Operations", "Shared Memory Matrix Layout" (128-byte swizzle, K-major; MN-major for right matrices of a
// left one in registers); rounding of sums of 8-bit floats: arXiv 2511.10909 (Hopper).
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pagoda::device::emulated {

class WarpgroupProducts {
 public:
  static constexpr std::size_t kRows = 64, kDepth = 16, kLineBytes = 128, kTileBytes = 8 * kLineBytes,
                               kLineColumns = kLineBytes / 2;

  // sums (64 x columns) = (adds: sums +) a (64 x 16) * b (columns x 16)^T. Both are offsets in shared memory:
  // 32 bytes of the first of lines of kLineBytes, whose pieces of 16 bytes are swizzled within each
  // kTileBytes; in bfloat16, or 32 of k in 8-bit floats (e4m3). Or `a` is in the threads' registers, and b
  // (16 x columns) has kDepth such lines, each with kLineColumns; the next columns are `apart` bytes further.
  struct Product {
    std::size_t a = 0, b = 0;
    std::uint32_t columns = 0;
    bool adds = true;
    std::size_t apart = 0;
    bool floats8 = false;
    bool operator==(const Product&) const = default;
  };
  // The rows of a left matrix in registers that a thread's sums need.
  using Line = std::array<float, 2 * kDepth>;
  using Rows = std::array<Line, 2>;
  // The offset of 16 bytes, its piece `piece`, of a line of a matrix at `first`.
  static std::size_t place(std::size_t first, std::size_t line, std::size_t piece) {
    const std::size_t at = first + line * kLineBytes + 16 * piece;
    return at ^ (at / kLineBytes % 8 * 16);
  }

  // Begins another cluster. `backward`: sums the k of a step from its end, unlike any kernel; for 8-bit
  // floats with all bits of f32, which the hardware's sums do not have.
  void begin(std::uint32_t blocks, std::uint32_t threads_of_block, bool backward);

  // Each returns a fault, or an empty string. `sums` are columns / 2 numbers of the thread.
  void fence(std::uint32_t thread, const float* sums, std::size_t count);
  // `rows`: of a left matrix in the threads' registers; or null.
  std::string multiply(std::uint32_t thread, float* sums, const Product& product, const Rows* rows);
  void commit(std::uint32_t thread);
  // Computes all but the latest `left` groups; returns the number of groups that have ended.
  std::uint32_t wait(std::uint32_t thread, std::size_t left, std::span<const std::byte> shared);
  std::string end(std::uint32_t thread);
  // The number of the group to which the thread's products are added, from 1 on.
  std::uint32_t group(std::uint32_t thread) const {
    return threads_[thread].ended + static_cast<std::uint32_t>(threads_[thread].groups.size()) + 1;
  }

 private:
  struct Task {
    float* sums;
    Product product;
    std::optional<Rows> rows;
  };
  struct Sums {
    std::vector<float> values;  // as products left them, or as found by products_fence()
    std::size_t under_way = 0;
  };
  struct Thread {
    std::map<const float*, Sums> sums;
    std::vector<Task> open;
    std::deque<std::vector<Task>> groups;
    std::uint32_t ended = 0, products = 0;
  };
  struct Warpgroup {
    struct Met {
      Product product;
      std::uint32_t threads = 0;
    };
    std::map<std::uint32_t, Met> met;  // by number: products that not all of its threads have reached
    std::uint32_t ended = 0;           // threads
  };
  Warpgroup& warpgroup_of(std::uint32_t thread);
  void work_out(std::uint32_t thread, const Task& task, std::span<const std::byte> shared,
                std::span<float> sums) const;

  std::vector<Thread> threads_;
  std::vector<Warpgroup> warpgroups_;
  std::uint32_t threads_of_block_ = 0;
  bool backward_ = false;
};

}  // namespace pagoda::device::emulated
