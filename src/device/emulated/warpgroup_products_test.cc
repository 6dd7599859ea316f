// Goal: a product of a warpgroup is the documented one, on matrices as they lie in shared memory; and each
// rule about who may read, write and overwrite what it reads is one that a kernel can break.
#include "device/emulated/warpgroup_products.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "device/emulated/emulated_device.h"
#include "device/emulated/planted_kernels.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::size_t kSide = 64, kRounds = 5;

float value_of(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// [rounds][64][64]; signs and exponents around one.
std::vector<std::uint16_t> random_matrices(std::uint64_t seed) {
  std::vector<std::uint16_t> all(kRounds * kSide * kSide);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t random = random_bits(seed, 7, i);
    all[i] = static_cast<std::uint16_t>((random & 0x80FFu) | (120 + random / 0x10000 % 8) << 7);
  }
  return all;
}

// As a kernel finds it in shared memory: piece j of line r at j ^ (r % 8).
std::vector<std::uint16_t> swizzled(const std::vector<std::uint16_t>& plain) {
  std::vector<std::uint16_t> all(plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t line = i / kSide, at = i % kSide;
    all[line * kSide + 8 * (at / 8 ^ line % 8) + at % 8] = plain[i];
  }
  return all;
}

// A chain over k of all rounds from `first` on, ascending. `lines`: of b, each a k.
std::vector<float> naive(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b,
                         bool lines = false, std::size_t first = 0) {
  std::vector<float> out(kSide * kSide);
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t k = first * kSide; k < kRounds * kSide; ++k) {
      const std::size_t round = k / kSide * kSide, at = k % kSide, column = i % kSide;
      out[i] = std::fma(value_of(a[(round + i / kSide) * kSide + at]),
                        value_of(b[lines ? k * kSide + column : (round + column) * kSide + at]), out[i]);
    }
  return out;
}

struct Outcome {
  Status status;
  std::vector<float> out;
};
constexpr LaunchShape kPair = {
    .grid = {1, 2}, .block = {kProductThreads}, .shared_bytes = kProductSharedBytes, .cluster = 2};
constexpr LaunchShape kAlone = {.block = {128}, .shared_bytes = 8192, .warpgroups = true};
Outcome outcome(const Kernel& kernel, std::uint64_t seed, const std::vector<std::uint16_t>& a,
                const std::vector<std::uint16_t>& b, const LaunchShape& shape = kPair) {
  auto device = *EmulatedDevice::create({.seed = seed});
  const StreamId stream = *device->create_stream();
  const auto put = [&](const std::vector<std::uint16_t>& values) {
    std::byte* const host = *device->allocate_pinned(values.size() * 2);
    std::memcpy(host, values.data(), values.size() * 2);
    std::byte* const to = *device->allocate(values.size() * 2, "matrices");
    EXPECT_TRUE(device->copy_in(stream, to, host, values.size() * 2).ok());
    return reinterpret_cast<const std::uint16_t*>(to);
  };
  Outcome done = {.status = {}, .out = std::vector<float>(kSide * kSide)};
  std::byte *const out = *device->allocate(4 * kSide * kSide, "out"), *const host = *device->allocate_pinned(
                                                                          4 * kSide * kSide);
  const PlantedProductArgs args = {
      .a = put(swizzled(a)), .b = put(swizzled(b)), .out = reinterpret_cast<float*>(out), .rounds = kRounds};
  done.status = launch(*device, stream, kernel, shape, args);
  if (done.status.ok()) done.status = device->copy_out(stream, host, out, 4 * kSide * kSide);
  if (done.status.ok()) done.status = device->synchronize(stream);
  if (done.status.ok()) std::memcpy(done.out.data(), host, 4 * kSide * kSide);
  return done;
}

TEST(WarpgroupProducts, AreChainsOverK) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto a = random_matrices(seed), b = random_matrices(seed + 100);
    const Outcome done = outcome(planted_products()[0].kernel, seed, a, b);
    ASSERT_TRUE(done.status.ok()) << done.status.message();
    const std::vector<float> wanted = naive(a, b);
    EXPECT_EQ(std::memcmp(done.out.data(), wanted.data(), 4 * wanted.size()), 0);
  }
}

TEST(WarpgroupProducts, OfLinesAreChainsOverK) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const auto a = random_matrices(seed), b = random_matrices(seed + 100);
    for (const bool anew : {false, true}) {
      const Outcome done = outcome(planted_lines()[anew ? 1 : 0].kernel, seed, a, b, kAlone);
      ASSERT_TRUE(done.status.ok()) << done.status.message();
      const std::vector<float> wanted = naive(a, b, true, anew ? kRounds - 1 : 0);
      EXPECT_EQ(std::memcmp(done.out.data(), wanted.data(), 4 * wanted.size()), 0);
    }
  }
}

void expect_faults(std::span<const PlantedProduct> all, const LaunchShape& shape) {
  const auto a = random_matrices(1), b = random_matrices(2);
  for (const PlantedProduct& planted : all)
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(::testing::Message() << planted.kernel.name << ", seed " << seed);
      const Status status = outcome(planted.kernel, seed, a, b, shape).status;
      EXPECT_EQ(status.ok(), planted.message == nullptr) << status.message();
      if (planted.message == nullptr) continue;
      EXPECT_NE(status.message().find(planted.message), std::string::npos) << status.message();
      EXPECT_NE(status.message().find(planted.kernel.name), std::string::npos) << status.message();
    }
}

TEST(WarpgroupProducts, RulesFindPlantedFaults) {
  if (!kChecked) GTEST_SKIP() << "kernels run unchecked in this build";
  expect_faults(planted_products(), kPair);
  expect_faults(planted_lines(), kAlone);
}

TEST(WarpgroupProducts, SumsAreNoNumbersUntilTheyAreWaitedFor) {
  const Outcome done = outcome(product_that_is_early(), 3, random_matrices(3), random_matrices(4));
  ASSERT_TRUE(done.status.ok()) << done.status.message();
  for (const float value : done.out) ASSERT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace pagoda::device::emulated
