// The kernels of planted_kernels.h, compiled as those of kernels/ are.
#include "device/emulated/planted_kernels.h"

#include "device/kernels/cluster_words.cuh"
#include "device/kernels/dialect.cuh"
#include "device/kernels/tickets.cuh"
#include "device/kernels/tile_words.cuh"

namespace pagoda::device::emulated {
namespace {

using kernels::kAllLanes;

// begins: it has not begun by itself.
template <void (*kernel)(PlantedArgs), bool begins>
void invoke(const void* args) {
  if (begins) kernels::begin_kernel();
  kernel(*static_cast<const PlantedArgs*>(args));
}

template <void (*kernel)(PlantedArgs), bool begins = true>
Kernel entry(const char* name) {
  return {name, reinterpret_cast<const void*>(&invoke<kernel, begins>), sizeof(PlantedArgs)};
}

// out[t] = in[63 - t], through shared memory.
template <bool with_barrier>
__global__ void turn_around(PlantedArgs args) {
  PAGODA_SHARED(float, shared);
  const unsigned t = threadIdx.x;
  shared[t] = args.in[t];
  if (with_barrier) __syncthreads();
  args.out[t] = shared[blockDim.x - 1 - t];
}

// The same of each warp, with a barrier of the warp: which is enough there, and not for the block.
template <bool within_warp>
__global__ void turn_in_warp(PlantedArgs args) {
  PAGODA_SHARED(float, shared);
  const unsigned t = threadIdx.x;
  shared[t] = args.in[t];
  __syncwarp();
  args.out[t] = shared[t ^ (within_warp ? 31u : 63u)];
}

// Reads what is written later: the other way round.
template <bool with_barrier>
__global__ void write_behind_read(PlantedArgs args) {
  PAGODA_SHARED(float, shared);
  const unsigned t = threadIdx.x;
  shared[t] = args.in[t];
  __syncthreads();
  const float all = shared[0] + shared[blockDim.x - 1];
  if (with_barrier) __syncthreads();
  if (t == 0) shared[0] = all;
  __syncthreads();
  args.out[t] = shared[0];
}

template <bool inside>
__global__ void copy_all(PlantedArgs args) {
  const int t = static_cast<int>(threadIdx.x);
  for (int i = t; inside ? i < args.size : i <= args.size; i += static_cast<int>(blockDim.x))
    args.out[i] = args.in[i];
}

// Numbers of four bytes, from a multiple of them on, or from between two.
template <bool aligned>
__global__ void read_bytes(PlantedArgs args) {
  const int t = static_cast<int>(threadIdx.x), from = aligned || t + 1 == args.size ? 0 : 2;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(args.in);
  args.out[t] = *reinterpret_cast<const float*>(bytes + 4 * t + from);
}

template <bool inside>
__global__ void beyond_shared(PlantedArgs args) {
  PAGODA_SHARED(float, shared);
  const unsigned t = threadIdx.x;
  shared[inside ? t : t + 1] = args.in[t];
  args.out[t] = shared[inside ? t : t + 1];
}

template <bool all>
__global__ void some_at_barrier(PlantedArgs args) {
  if (all || threadIdx.x < 32) __syncthreads();
  args.out[threadIdx.x] = 0;
}

// Counts of three barriers, each of which begins at nothing: a wrong one would be written beyond the end.
template <bool all>
__global__ void some_at_count(PlantedArgs args) {
  const int t = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  bool right = __syncthreads_count(t < 5 ? 1 : 0) == 5 && __syncthreads_count(1) == threads;
  if (all || t < 32) right = __syncthreads_count(t % 2) == threads / 2 && right;
  args.out[right ? t : args.size + t] = 0;
}

template <bool all>
__global__ void some_at_shuffle(PlantedArgs args) {
  float x = 1;
  if (all || threadIdx.x % 32 < 16) x = __shfl_xor_sync(kAllLanes, x, 1);
  args.out[threadIdx.x] = x;
}

template <bool full>
__global__ void part_of_mask(PlantedArgs args) {
  args.out[threadIdx.x] = __shfl_xor_sync(full ? kAllLanes : 0xFFFFu, 1.0f, 1);
}

template <bool atomic>
__global__ void count_up(PlantedArgs args) {
  if (atomic)
    atomicAdd(args.count, 1u);
  else
    *args.count += 1;
}

// Blocks that write the same element.
template <bool own>
__global__ void write_from_blocks(PlantedArgs args) {
  if (threadIdx.x == 0) args.out[own ? blockIdx.x : 0] = 1;
}

template <bool of_device>
__global__ void touch_host(PlantedArgs args) {
  static float host_number = 3;
  args.out[threadIdx.x] = of_device ? args.in[threadIdx.x] : host_number;
  if (!of_device) host_number = 4;
}

// Copies of 16 bytes a thread of the first quarter, in two stages, as attention_tiles.cuh has them: what is
// in one is turned around while the other is copied. Each fault leaves one thing away.
enum class Left { nothing, wait, barrier_behind_wait, barrier_before_copy, alignment };
template <Left left>
__device__ void copy_in_stages(const PlantedArgs& args) {
  PAGODA_SHARED(float, shared);  // two stages of 32
  const int t = static_cast<int>(threadIdx.x), size = 32;
  const auto copy = [&](int stage, int from) {
    if (t < size / 4)
      kernels::copy_async(shared + stage * size + 4 * t,
                          args.in + from + 4 * t + (left == Left::alignment ? 1 : 0), true);
    kernels::copies_commit();
  };
  copy(0, 0);
  for (int round = 0; round < 4; ++round) {  // the input's halves by turns
    copy((round + 1) % 2, (round + 1) % 2 * size);
    if (left != Left::wait) kernels::copies_wait<1>();
    if (left != Left::barrier_behind_wait) __syncthreads();
    if (t < size) args.out[round % 2 * size + t] = shared[round % 2 * size + size - 1 - t];
    if (left != Left::barrier_before_copy) __syncthreads();
  }
  kernels::copies_wait<0>();
}
template <bool good>
__global__ void wait_for_copies(PlantedArgs args) {
  copy_in_stages<good ? Left::nothing : Left::wait>(args);
}
template <bool good>
__global__ void barrier_behind_wait(PlantedArgs args) {
  copy_in_stages<good ? Left::nothing : Left::barrier_behind_wait>(args);
}
template <bool good>
__global__ void barrier_before_copy(PlantedArgs args) {
  copy_in_stages<good ? Left::nothing : Left::barrier_before_copy>(args);
}
template <bool good>
__global__ void aligned_copies(PlantedArgs args) {
  copy_in_stages<good ? Left::nothing : Left::alignment>(args);
}

// A thread that does not wait for what it has copied.
template <bool waits>
__global__ void end_without_wait(PlantedArgs args) {
  PAGODA_SHARED(float, shared);
  const unsigned t = threadIdx.x;
  if (t < 16) kernels::copy_async(shared + 4 * t, args.in + 4 * t, true);
  kernels::copies_commit();
  if (waits) kernels::copies_wait<0>();
  args.out[t] = 0;
}

// Two blocks that share what they copy, in two places, as linear_tiles.cuh has it: each brings half of a
// round's 32 numbers to both, and goes on once both have said that the place is free. Each fault leaves one
// thing away.
enum class Gone { nothing, show, wait, parity, barrier, free, until_free, bytes, once, stay };
template <Gone gone>
__device__ void share_in_stages(const PlantedArgs& args) {
  PAGODA_SHARED(float, shared);
  constexpr int kSize = 32, kRounds = 4;
  const int t = static_cast<int>(threadIdx.x), rank = static_cast<int>(kernels::rank_in_cluster());
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + 2 * kSize);
  auto* const free = full + 2;
  if (t == 0)
    for (int i = 0; i < 2; ++i) {
      kernels::make_arrivals(full + i, 1);
      kernels::make_arrivals(free + i, 2);
    }
  if (gone != Gone::show) {
    kernels::cluster_arrive();
    kernels::cluster_wait();
  }
  const auto share = [&](int round) {
    const int to = round % 2 * kSize + rank * kSize / 2;
    kernels::expect_arrivals(full + round % 2, (gone == Gone::bytes ? 8 : 4) * kSize);
    if (gone == Gone::once) kernels::expect_arrivals(full + round % 2, 0);
    kernels::copy_to_cluster(shared + to, args.in + to, 2 * kSize, full + round % 2, 3);
  };
  for (int round = 0; t == 0 && round < 2; ++round) share(round);
  __syncthreads();
  for (int round = 0; round < kRounds; ++round) {
    const int place = round % 2;
    const auto parity = static_cast<unsigned>(round / 2 % 2);
    if (gone != Gone::wait || t != 5)
      kernels::wait_for_arrivals(full + place, gone == Gone::parity ? parity ^ 1 : parity);
    if (t < kSize) args.out[rank * kSize + t] = shared[place * kSize + kSize - 1 - t];
    if (gone != Gone::barrier) __syncthreads();
    if (t != 0 || round + 2 >= kRounds) continue;
    for (unsigned other = 0; other < 2; ++other)
      if (gone != Gone::free || other == static_cast<unsigned>(rank)) kernels::arrive_at(free + place, other);
    if (gone != Gone::until_free) kernels::wait_for_arrivals(free + place, parity);
    share(round + 2);
  }
  if (gone != Gone::stay) {
    kernels::cluster_arrive();
    kernels::cluster_wait();
  }
}
#define SHARED_PAIR(fault)                                     \
  template <bool good>                                         \
  __global__ void share_##fault(PlantedArgs args) {            \
    share_in_stages<good ? Gone::nothing : Gone::fault>(args); \
  }
SHARED_PAIR(show)
SHARED_PAIR(wait)
SHARED_PAIR(parity)
SHARED_PAIR(barrier)
SHARED_PAIR(free)
SHARED_PAIR(until_free)
SHARED_PAIR(bytes)
SHARED_PAIR(once)
SHARED_PAIR(stay)
#undef SHARED_PAIR

// Copies of some threads arrive by themselves at a barrier, behind which a warp reads them; and come again
// once one of its lanes has said that all have read.
enum class Unsaid { nothing, there, met };
template <Unsaid unsaid>
__device__ void read_behind_barrier(const PlantedArgs& args) {
  PAGODA_SHARED(float, shared);
  constexpr int kSize = 32, kCopiers = kSize / 4;
  const int t = static_cast<int>(threadIdx.x), rank = static_cast<int>(kernels::rank_in_cluster());
  auto* const full = reinterpret_cast<std::uint64_t*>(shared + kSize);
  auto* const free = full + 1;
  if (t == 0) {
    kernels::make_arrivals(full, kCopiers);
    kernels::make_arrivals(free, 1);
  }
  kernels::cluster_arrive();
  kernels::cluster_wait();
  for (unsigned round = 0; round < 2; ++round) {
    if (t >= kSize && t - kSize < kCopiers) {
      if (round > 0) kernels::wait_for_arrivals(free, 0);
      kernels::copy_async(shared + 4 * (t - kSize), args.in + 4 * (t - kSize), true);
      kernels::arrive_with_copies(full);
    }
    if (t >= kSize) continue;
    if (unsaid != Unsaid::there || t != 5) kernels::wait_for_arrivals(full, round);
    args.out[rank * kSize + t] = shared[kSize - 1 - t];
    if (unsaid != Unsaid::met) __syncwarp();
    if (t == 0 && round == 0) kernels::arrive_at(free, static_cast<unsigned>(rank));
  }
  kernels::cluster_arrive();
  kernels::cluster_wait();
}
template <bool good>
__global__ void read_there(PlantedArgs args) {
  read_behind_barrier<good ? Unsaid::nothing : Unsaid::there>(args);
}
template <bool good>
__global__ void read_met(PlantedArgs args) {
  read_behind_barrier<good ? Unsaid::nothing : Unsaid::met>(args);
}

// It touches something before it waits for earlier kernels.
template <bool good>
__global__ void write_before_wait(PlantedArgs args) {
  const float x = args.in[threadIdx.x];  // nobody writes that
  if (good) kernels::wait_for_earlier();
  args.out[threadIdx.x] = x;
  kernels::wait_for_earlier();
}

template <bool good>
__global__ void count_before_wait(PlantedArgs args) {
  if (good) kernels::begin_kernel();
  atomicAdd(args.count, 1u);
  kernels::begin_kernel();
}

template <bool all>
__global__ void some_wait(PlantedArgs args) {
  if (!all && threadIdx.x == 5) return;
  kernels::begin_kernel();
  args.out[threadIdx.x] = 0;
}

template <bool constant>
__global__ void read_before_wait(PlantedArgs args) {
  const float x = (constant ? args.in : args.out)[threadIdx.x];
  kernels::wait_for_earlier();
  args.out[threadIdx.x] = x;
}

// The last of two blocks reads what both have written. Its barriers: in front of the ticket, and behind it.
template <bool in_front, bool behind>
__device__ void read_by_last(const PlantedArgs& args) {
  PAGODA_SHARED(float, shared);
  const unsigned t = threadIdx.x;
  if (t % 2 == blockIdx.x) args.out[t] = args.in[t];
  if (in_front) __syncthreads();
  int last = t == 0 && kernels::take_ticket(args.count, 2) ? 1 : 0;
  last = behind ? __syncthreads_count(last) : __shfl_sync(kAllLanes, last, 0);
  if (last != 0) shared[t] = args.out[t];
}
template <bool right>
__global__ void barrier_before_ticket(PlantedArgs args) {
  read_by_last<right, true>(args);
}
template <bool right>
__global__ void barrier_behind_ticket(PlantedArgs args) {
  read_by_last<true, right>(args);
}
// A counter that was never set to 0.
template <bool zero>
__global__ void ticket_from_zero(PlantedArgs args) {
  if (threadIdx.x != 0) return;
  auto* const counter = zero ? args.count : reinterpret_cast<unsigned*>(args.out);
  args.out[1 + blockIdx.x] = kernels::take_ticket(counter, 2) ? 1 : 0;
}

#define PAIR(name, ...)                                             \
  {#name, entry<name<true>>(#name), true, __VA_ARGS__}, {           \
    #name " (wrong)", entry<name<false>>(#name), false, __VA_ARGS__ \
  }
#define EARLY_PAIR(name, ...)                                              \
  {#name, entry<name<true>, false>(#name), true, __VA_ARGS__}, {           \
    #name " (wrong)", entry<name<false>, false>(#name), false, __VA_ARGS__ \
  }
const std::array<Planted, 70> planted = {{
    PAIR(turn_around, 1, "of shared memory in a race with thread"),
    PAIR(turn_in_warp, 1, "of shared memory in a race with thread"),
    PAIR(write_behind_read, 1, "of shared memory in a race with thread"),
    PAIR(copy_all, 1, "at offset 256 of 'in', which has 256 bytes"),
    PAIR(read_bytes, 1, "reads 4 bytes at an address that is not aligned"),
    PAIR(beyond_shared, 1, "at offset 256 of the block's 256 bytes of shared memory"),
    PAIR(some_at_barrier, 1, "waits at a barrier of its block, thread 32 has ended"),
    PAIR(some_at_count, 1, "waits at a barrier of its block, thread 32 has ended"),
    PAIR(some_at_shuffle, 1, "waits at a barrier of its warp, thread 16 has ended"),
    PAIR(part_of_mask, 1, "a mask that is not full"),
    PAIR(count_up, 2, "of 'count' in a race with thread"),
    PAIR(write_from_blocks, 2, "of 'out' in a race with thread 0 of block"),
    PAIR(barrier_before_ticket, 2, "of 'out' in a race with thread"),
    PAIR(barrier_behind_ticket, 2, "of 'out' in a race with thread"),
    PAIR(ticket_from_zero, 2, "takes a ticket of a counter that has given more"),
    PAIR(touch_host, 1, "of memory that is not the device's"),
    PAIR(wait_for_copies, 1, "of shared memory, which a copy of thread"),
    PAIR(barrier_behind_wait, 1, "of shared memory"),
    PAIR(barrier_before_copy, 1, "of shared memory"),
    PAIR(aligned_copies, 1, "an asynchronous copy that is not aligned to 16 bytes"),
    PAIR(end_without_wait, 1, "ends with asynchronous copies under way"),
    PAIR(share_show, 2, "the cluster's barrier has not shown", 2),
    PAIR(share_wait, 2, "of shared memory, which a bulk copy", 2),
    PAIR(share_parity, 2, "waits for a phase of a barrier of copies that it has seen end", 2),
    PAIR(share_barrier, 2, "which a thread may still read or write", 2),
    PAIR(share_free, 2, "waits at a barrier of copies that do not arrive", 2),
    PAIR(share_until_free, 2, "a bulk copy to offset", 2),
    PAIR(share_bytes, 2, "waits at a barrier of copies that do not arrive", 2),
    PAIR(share_once, 2, "once more than it was made for", 2),
    PAIR(read_there, 2, "of shared memory", 2),
    PAIR(read_met, 2, "of shared memory in a race with thread", 2),
    EARLY_PAIR(write_before_wait, 1, "of the device before it waits for earlier kernels"),
    EARLY_PAIR(read_before_wait, 1, "of the device before it waits for earlier kernels"),
    EARLY_PAIR(count_before_wait, 1, "of the device before it waits for earlier kernels"),
    EARLY_PAIR(some_wait, 1, "thread 5: ends without waiting for earlier kernels"),
}};
#undef EARLY_PAIR
#undef PAIR

constexpr int kRows = 16, kColumns = 8, kDepth = 16;

__global__ void product(FragmentArgs args) {
  kernels::begin_kernel();
  PAGODA_SHARED(kernels::Bf16, shared);
  const int lane = static_cast<int>(threadIdx.x), group = lane / 4, in_group = lane % 4;
  std::uint32_t a[4], b[2];
  if (args.by_rows == 0) {
    for (int i = 0; i < 8; i += 2) {  // a_i and a_(i+1), in a register
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8,
                column = in_group * 2 + (i >= 4 ? 8 : 0);
      a[i / 2] = kernels::pack(args.a[row * kDepth + column], args.a[row * kDepth + column + 1]);
    }
    for (int i = 0; i < 4; i += 2) {
      const int row = in_group * 2 + (i >= 2 ? 8 : 0);
      b[i / 2] = kernels::pack(args.b[row * kColumns + group], args.b[(row + 1) * kColumns + group]);
    }
  } else {
    kernels::Bf16 *const left = shared, *const right = shared + kRows * kDepth;
    for (int i = lane; i < kRows * kDepth; i += 32) kernels::store(left + i, args.a[i]);
    for (int i = lane; i < kDepth * kColumns; i += 32) kernels::store(right + i, args.b[i]);
    __syncwarp();
    // The four matrices of `a` by their registers: rows and columns from 0 and 8.
    kernels::load_matrices<false>(left + (lane % 8 + lane / 8 % 2 * 8) * kDepth + lane / 16 * 8, a);
    // The two of `b`, turned; lanes above 16 name them again.
    std::uint32_t twice[4];
    kernels::load_matrices<true>(right + lane % 16 * kColumns, twice);
    b[0] = twice[0];
    b[1] = twice[1];
  }
  float sums[4];  // not a constant of the host's, which no kernel may read
  for (int i = 0; i < 4; ++i) sums[i] = static_cast<float>(100 * (i + 1));
  kernels::multiply_matrices(sums, a, b);
  for (int i = 0; i < 4; ++i)
    args.out[(i < 2 ? group : group + 8) * kColumns + in_group * 2 + i % 2] = sums[i];
}

void invoke_product(const void* args) { product(*static_cast<const FragmentArgs*>(args)); }

}  // namespace

Kernel product_of_fragments() {
  return {"product", reinterpret_cast<const void*>(&invoke_product), sizeof(FragmentArgs)};
}

std::span<const Planted> planted_kernels() { return planted; }

Kernel kernel_that_leaves_early() { return entry<share_stay<false>>("share_stay"); }

}  // namespace pagoda::device::emulated
