// The products of planted_kernels.h, compiled as the kernels of kernels/ are.
#include <array>

#include "device/emulated/planted_kernels.h"
#include "device/kernels/cluster_words.cuh"
#include "device/kernels/tile_words.cuh"
#include "device/kernels/warpgroup_words.cuh"

namespace pagoda::device::emulated {
namespace {

// Two blocks have the same `a`, of which each brings half to both, by bulk copies; `b` each brings for
// itself. As linear_bulk.cuh has it: a ring of two places, a warpgroup that multiplies, two warps that bring.
// Each fault leaves one thing away, or does it at the wrong place.
enum class Off {
  nothing,
  wait,
  parity,
  show,
  arrive,
  copies,
  free,
  fence,
  again,
  same,
  all,
  begin,
  stay,
  early,
  alone,
  unseen,
  ahead,
  told,
  untold
};
// Copies arrive by themselves, and who multiplies fences, or a thread that tells them.
constexpr bool arrives_alone(Off off) { return off >= Off::alone; }
constexpr bool is_told(Off off) { return off >= Off::told; }
constexpr int kMultipliers = 128, kBringers = 64, kBytes = 64 * 128;

struct Ring {
  unsigned char* stages;
  std::uint64_t *filled, *freed, *arrived;
};

template <Off off>
__device__ void bring(const PlantedProductArgs& args, const Ring& ring) {
  const int thread = static_cast<int>(threadIdx.x) - kMultipliers,
            rank = static_cast<int>(kernels::rank_in_cluster());
  for (int round = 0; round < args.rounds; ++round) {
    const int place = round % 2;
    unsigned char* const stage = ring.stages + 2 * kBytes * place;
    if (round >= 2) kernels::wait_for_arrivals(ring.freed + place, static_cast<unsigned>(round / 2 - 1) % 2);
    const auto from = [&](const std::uint16_t* matrix) {
      return reinterpret_cast<const unsigned char*>(matrix) + kBytes * round;
    };
    if (thread == 0) {
      kernels::expect_arrivals(ring.filled + place, kBytes);
      const int half = rank * kBytes / 2;
      kernels::copy_to_cluster(stage + half, from(args.a) + half, kBytes / 2, ring.filled + place, 3);
    }
    for (int i = thread; i < kBytes / 16; i += kBringers)
      kernels::copy_async(stage + kBytes + 16 * i, from(args.b) + 16 * i, true);
    if (arrives_alone(off)) {
      kernels::arrive_with_copies((is_told(off) ? ring.arrived : ring.filled) + place);
      if (is_told(off) && thread == kBringers - 1) {
        kernels::wait_for_arrivals(ring.arrived + place, static_cast<unsigned>(round / 2) % 2);
        if (off == Off::told) kernels::show_writes();
        kernels::arrive_here(ring.filled + place);
      }
      continue;
    }
    kernels::copies_commit();
    if (off != Off::copies) kernels::copies_wait<0>();
    if (off != Off::show) kernels::show_writes();
    // One arrival is by a thread that has nothing to say, so that the phase ends.
    if (off != Off::arrive || thread != 5)
      kernels::arrive_at(ring.filled + place, kernels::rank_in_cluster());
    if (off == Off::arrive && thread == 6)
      kernels::arrive_at(ring.filled + place, kernels::rank_in_cluster());
  }
  if (off == Off::copies) kernels::copies_wait<0>();
}

template <Off off>
__device__ void multiply(const PlantedProductArgs& args, const Ring& ring, float (&sums)[8][4]) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  for (int n = 0; n < 8; ++n)
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  if (off != Off::fence) kernels::fence_products(sums);
  for (int round = 0; round < args.rounds; ++round) {
    const int place = round % 2;
    const unsigned parity = static_cast<unsigned>(round / 2) % 2;
    const unsigned char* const stage = ring.stages + 2 * kBytes * place;
    if (off == Off::ahead) kernels::show_writes();
    if (off != Off::wait || warp != 1 || round != 1)
      kernels::wait_for_arrivals(ring.filled + place, off == Off::parity ? parity ^ 1 : parity);
    if (off == Off::alone) kernels::show_writes();
    if (off == Off::again && round == 1) sums[0][0] += 1;
    for (int k = 0; k < 128; k += 32) {
      if (off == Off::all && warp == 2 && round == args.rounds - 1 && k == 96) continue;
      const int other = off == Off::same && warp == 2 ? k ^ 32 : k;
      kernels::multiply_warpgroup(sums, stage + (off == Off::begin ? k + 16 : k), stage + kBytes + other);
    }
    kernels::commit_products();
    const bool last = round == args.rounds - 1;
    if (off == Off::early && last) return;
    if (off != Off::free && (off != Off::stay || !last)) kernels::wait_for_products<0>();
    if (threadIdx.x % 32 == 0 && round + 2 < args.rounds)
      for (unsigned rank = 0; rank < 2; ++rank) kernels::arrive_at(ring.freed + place, rank);
  }
  if (off == Off::free) kernels::wait_for_products<0>();
}

template <Off off>
__global__ void product(PlantedProductArgs args) {
  PAGODA_SWIZZLED_SHARED(unsigned char, shared);
  auto* const barriers = reinterpret_cast<std::uint64_t*>(shared + 4 * kBytes);
  const Ring ring = {shared, barriers, barriers + 2, barriers + 4};
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; ++i) {
      kernels::make_arrivals(ring.filled + i, (is_told(off) ? 1 : kBringers) + 1);
      if (is_told(off)) kernels::make_arrivals(ring.arrived + i, kBringers);
      kernels::make_arrivals(ring.freed + i, 2 * 4);
    }
  kernels::cluster_arrive();
  kernels::cluster_wait();
  if (threadIdx.x < kMultipliers) {
    float sums[8][4];
    multiply<off>(args, ring, sums);
    const unsigned row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    if (kernels::rank_in_cluster() == 0)
      for (unsigned n = 0; n < 8; ++n)
        for (unsigned i = 0; i < 4; ++i)
          args.out[(row + i / 2 * 8) * 64 + 8 * n + column + i % 2] = sums[n][i];
    if (off == Off::early) kernels::wait_for_products<0>();
  } else {
    bring<off>(args, ring);
  }
  kernels::cluster_arrive();
  kernels::cluster_wait();
}

template <Off off>
void invoke(const void* args) {
  kernels::begin_kernel();
  product<off>(*static_cast<const PlantedProductArgs*>(args));
}

template <Off off>
Kernel entry(const char* name) {
  return {name, reinterpret_cast<const void*>(&invoke<off>), sizeof(PlantedProductArgs)};
}

#define WRONG(off, message) {entry<Off::off>("product_" #off), message}
const std::array<PlantedProduct, 18> planted = {{
    {entry<Off::nothing>("product"), nullptr},
    WRONG(wait, "which a bulk copy"),
    WRONG(parity, "waits for a phase of a barrier of copies that it has seen end"),
    WRONG(show, "which a thread wrote without showing it to the asynchronous proxy"),
    WRONG(arrive, "which another thread wrote for whose arrival the thread has not waited"),
    WRONG(copies, "may still write"),
    WRONG(free, "may still read"),
    WRONG(fence, "into sums that were changed without a fence of products"),
    WRONG(again, "into sums that were changed without a fence of products"),
    WRONG(same, "multiplies other matrices than the rest of its warpgroup"),
    WRONG(all, "of which not all have multiplied"),
    WRONG(begin, "does not begin in the first line of 1,024 bytes"),
    WRONG(stay, "ends with products under way"),
    {entry<Off::alone>("product_alone"), nullptr},
    WRONG(unseen, "which a thread wrote without showing it to the asynchronous proxy"),
    WRONG(ahead, "which a thread wrote without showing it to the asynchronous proxy"),
    {entry<Off::told>("product_told"), nullptr},
    WRONG(untold, "which a thread wrote without showing it to the asynchronous proxy"),
}};
#undef WRONG

}  // namespace

std::span<const PlantedProduct> planted_products() { return planted; }

Kernel product_that_is_early() { return entry<Off::early>("product_early"); }

}  // namespace pagoda::device::emulated
