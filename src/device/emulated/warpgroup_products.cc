#include "device/emulated/warpgroup_products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "device/emulated/fused_sums.h"

namespace pagoda::device::emulated {
namespace {

constexpr std::uint32_t kGroupThreads = 128;

bool same_bits(std::span<const float> left, std::span<const float> right) {
  return std::memcmp(left.data(), right.data(), left.size_bytes()) == 0;
}

float value_of(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

float value_of(std::byte e4m3) {
  const auto bits = static_cast<std::uint32_t>(e4m3);
  if ((bits & 0x7F) == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>((bits & 0x80) << 24 | (bits & 0x7F) << 20) * 0x1p120f;
}

using Line = WarpgroupProducts::Line;
Line line_of(std::span<const std::byte> shared, std::size_t first, std::size_t line, bool floats8) {
  Line values = {};
  for (std::size_t piece = 0; piece < 2; ++piece) {
    const std::byte* const from = &shared[WarpgroupProducts::place(first, line, piece)];
    for (std::size_t i = 0; floats8 && i < 16; ++i) values[16 * piece + i] = value_of(from[i]);
    if (floats8) continue;
    std::uint16_t bits[8];
    std::memcpy(bits, from, sizeof bits);
    for (std::size_t i = 0; i < 8; ++i) values[8 * piece + i] = value_of(bits[i]);
  }
  return values;
}

// A column of lines that have several columns each.
Line column_of(std::span<const std::byte> shared, std::size_t first, std::size_t column) {
  Line values = {};
  for (std::size_t line = 0; line < WarpgroupProducts::kDepth; ++line) {
    std::uint16_t bits;
    std::memcpy(&bits, &shared[WarpgroupProducts::place(first, line, column / 8) + column % 8 * 2],
                sizeof bits);
    values[line] = value_of(bits);
  }
  return values;
}

// `sum` plus the 32 products of 8-bit floats, as Hopper adds them: each is cut to 13 bits after the leading
// bit of the largest, and so is the sum.
float sum_of_floats8(float sum, const Line& row, const Line& column) {
  constexpr int kKept = 13, kFraction = 23;
  std::array<std::uint32_t, std::tuple_size_v<Line> + 1> terms;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    terms[i] = std::bit_cast<std::uint32_t>(i == 0 ? sum : row[i - 1] * column[i - 1]);
    largest = std::max(largest, terms[i] >> kFraction & 0xFF);
  }
  if (largest == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  std::int64_t all = 0;
  for (const std::uint32_t term : terms) {
    const std::uint32_t exponent = term >> kFraction & 0xFF, shift = largest - exponent + kFraction - kKept;
    if (exponent == 0 || shift > kFraction) continue;
    const std::int64_t size = ((term & 0x7FFFFF) | 0x800000) >> shift;
    all += term >> 31 != 0 ? -size : size;
  }
  int extra = 0;
  for (std::int64_t size = std::abs(all); size >> (kKept + 1) > 0; size >>= 1) ++extra;
  const auto kept = static_cast<float>(all / (std::int64_t{1} << extra));
  return std::ldexp(kept, static_cast<int>(largest) - 127 - kKept + extra);
}

}  // namespace

// The thread's part: rows 16 * warp + lane / 4 and eight further, columns 2 * (lane % 4) and the next of each
// eight. Sums of bfloat16 are in f32, k ascending; hardware has its own order.
void WarpgroupProducts::work_out(std::uint32_t thread, const Task& task, std::span<const std::byte> shared,
                                 std::span<float> sums) const {
  const Product& product = task.product;
  const std::size_t lane = thread % 32, row = thread % kGroupThreads / 32 * 16 + lane / 4;
  const Rows rows = task.rows ? *task.rows
                              : Rows{line_of(shared, product.a, row, product.floats8),
                                     line_of(shared, product.a, row + 8, product.floats8)};
  for (std::size_t i = 0; i < product.columns / 4; ++i) {
    const std::size_t at = i / 2 * 8 + lane % 4 * 2 + i % 2;
    const Line column =
        task.rows ? column_of(shared, product.b + at / kLineColumns * product.apart, at % kLineColumns)
                  : line_of(shared, product.b, at, product.floats8);
    for (std::size_t half = 0; half < 2; ++half) {
      float& sum = sums[i / 2 * 4 + 2 * half + i % 2];
      if (!product.adds) sum = 0;
      if (product.floats8 && !backward_) {
        sum = sum_of_floats8(sum, rows[half], column);
        continue;
      }
      const std::size_t depth = product.floats8 ? 2 * kDepth : kDepth;
      if (!backward_) {
        sum = add_products(sum, std::span(rows[half]).first(depth), std::span(column).first(depth));
        continue;
      }
      for (std::size_t k = depth; k-- > 0;) sum = std::fma(rows[half][k], column[k], sum);
    }
  }
}

void WarpgroupProducts::begin(std::uint32_t blocks, std::uint32_t threads_of_block, bool backward) {
  backward_ = backward;
  threads_.assign(std::size_t{blocks} * threads_of_block, {});
  warpgroups_.assign(std::size_t{blocks} * ((threads_of_block + kGroupThreads - 1) / kGroupThreads), {});
  threads_of_block_ = threads_of_block;
}

WarpgroupProducts::Warpgroup& WarpgroupProducts::warpgroup_of(std::uint32_t thread) {
  const std::uint32_t of_block = (threads_of_block_ + kGroupThreads - 1) / kGroupThreads;
  return warpgroups_[thread / threads_of_block_ * of_block + thread % threads_of_block_ / kGroupThreads];
}

void WarpgroupProducts::fence(std::uint32_t thread, const float* sums, std::size_t count) {
  Sums& of = threads_[thread].sums[sums];
  if (of.under_way == 0) of.values.assign(sums, sums + count);
}

std::string WarpgroupProducts::multiply(std::uint32_t thread, float* sums, const Product& product,
                                        const Rows* rows) {
  if (product.columns == 0 || product.columns > 256 || product.columns % 8 != 0)
    return "a product of columns that a warpgroup does not multiply";
  for (const std::size_t first : {product.a, product.b})
    if (first % kTileBytes >= kLineBytes || first % 32 != 0)
      return "a product of a matrix that does not begin in the first line of 1,024 bytes, at a multiple of "
             "32";
  if (rows != nullptr && product.b % kTileBytes != 0)
    return "a product of lines that do not begin at a multiple of 1,024 bytes";
  Thread& of = threads_[thread];
  auto& met = warpgroup_of(thread).met;
  Warpgroup::Met& here = met.try_emplace(of.products, Warpgroup::Met{.product = product}).first->second;
  if (here.product != product) return "multiplies other matrices than the rest of its warpgroup";
  if (++here.threads == kGroupThreads) met.erase(of.products);
  ++of.products;
  const std::size_t count = product.columns / 2;
  const auto found = of.sums.find(sums);
  if (found == of.sums.end() || found->second.values.size() != count ||
      (found->second.under_way == 0 && !same_bits(found->second.values, {sums, count})))
    return "multiplies into sums that were changed without a fence of products";
  ++found->second.under_way;
  std::fill(sums, sums + count, std::numeric_limits<float>::quiet_NaN());
  of.open.push_back({sums, product, rows == nullptr ? std::nullopt : std::optional(*rows)});
  return {};
}

void WarpgroupProducts::commit(std::uint32_t thread) {
  threads_[thread].groups.push_back(std::move(threads_[thread].open));
  threads_[thread].open.clear();
}

std::uint32_t WarpgroupProducts::wait(std::uint32_t thread, std::size_t left,
                                      std::span<const std::byte> shared) {
  Thread& of = threads_[thread];
  while (of.groups.size() > left) {
    for (const Task& task : of.groups.front()) {
      Sums& sums = of.sums.at(task.sums);
      work_out(thread % threads_of_block_, task, shared, sums.values);
      if (--sums.under_way == 0) std::ranges::copy(sums.values, task.sums);
    }
    of.groups.pop_front();
    ++of.ended;
  }
  return of.ended;
}

std::string WarpgroupProducts::end(std::uint32_t thread) {
  const Thread& of = threads_[thread];
  if (!of.open.empty() || !of.groups.empty()) return "ends with products under way";
  Warpgroup& all = warpgroup_of(thread);
  if (++all.ended == kGroupThreads && !all.met.empty())
    return "ends, the last of its warpgroup, of which not all have multiplied";
  return {};
}

}  // namespace pagoda::device::emulated
