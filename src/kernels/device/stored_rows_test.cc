// Goal: what stays quantised on a device is the file's weights to the last bit: products over it have the
// bits of products over the same weights widened by the host, alone and by experts.
#include "kernels/device/stored_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "device/test_support.h"
#include "kernels/dequantize.h"
#include "kernels/device/weight_upload.h"
#include "kernels/formats/formats.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

using device::Element;

struct RowsInMemory {
  std::vector<std::byte> file;
  TensorView view;
};

RowsInMemory stored_of(DType dtype, std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  RowsInMemory out;
  out.file = random_weights(seed, dtype, rows * columns);
  out.view = {.dtype = dtype, .shape = {rows, columns}, .data = out.file.data()};
  return out;
}

std::vector<std::byte> on_device(Element element, const TensorView& view) {
  const std::int64_t bytes = device::KernelLaunches::row_bytes(element, view.columns());
  std::vector<std::byte> out(static_cast<std::size_t>(view.rows() * bytes));
  for (std::int64_t row = 0; row < view.rows(); ++row)
    write_row(element, view, row, out.data() + row * bytes);
  return out;
}

// A row bit by bit, as stored_layouts.h says where each weight lies.
std::vector<std::byte> plainly_on_device(Element element, const TensorView& view, std::int64_t row) {
  const std::int64_t columns = view.columns();
  std::vector<std::byte> out(static_cast<std::size_t>(device::KernelLaunches::row_bytes(element, columns)));
  const auto* const file =
      reinterpret_cast<const std::uint8_t*>(view.data + row * dtype_bytes(view.dtype, columns));
  if (element == Element::f32 || element == Element::bf16) {
    std::vector<float> values(static_cast<std::size_t>(columns));
    dequantize_row(view, row, values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = float_to_bfloat16(values[i]);
      if (element == Element::f32) std::memcpy(out.data() + 4 * i, &values[i], 4);
      if (element == Element::bf16) std::memcpy(out.data() + 2 * i, &half, 2);
    }
    return out;
  }
  for (std::int64_t i = 0; element == Element::mxfp4 && i < columns; ++i) {
    const std::uint8_t* const block = file + i / 32 * 17;
    const int code = block[1 + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15;
    const auto at = static_cast<std::int32_t>(i % 32);
    std::byte& byte = out[static_cast<std::size_t>(i / 32 * 16 + device::float4_byte(at))];
    byte |= static_cast<std::byte>(code << device::float4_shift(at));
    out[static_cast<std::size_t>(columns / 2 + i / 32)] = static_cast<std::byte>(block[0]);
  }
  for (std::int64_t i = 0; element == Element::nvfp4 && i < columns; ++i) {
    const bool of_file = view.dtype == DType::nvfp4;
    const std::uint8_t* const block = file + i / 64 * (of_file ? 36 : 44);
    const std::int64_t scale = i % 64 / 16, low = i % 32;
    const int code = of_file ? block[4 + 8 * scale + i % 8] >> (i % 16 < 8 ? 0 : 4) & 15
                             : block[12 + i % 64 / 32 * 16 + low % 16] >> (low < 16 ? 0 : 4) & 15;
    const auto at = static_cast<std::int32_t>(low);
    out[static_cast<std::size_t>(i / 32 * 16 + device::float4_byte(at))] |=
        static_cast<std::byte>(code << device::float4_shift(at));
    const std::uint8_t bits = block[(of_file ? 0 : 8) + scale];
    out[static_cast<std::size_t>(columns / 2 + i / 16)] =
        static_cast<std::byte>(!of_file       ? bits
                               : bits == 0x7f ? 0
                                              : bits & 0x7f);
    device::Float4Factors factors = {1, 1, 1, 0};
    if (!of_file) std::memcpy(&factors.factor, block, 8);
    factors.all = factors.factor / factors.divisor;
    std::memcpy(out.data() + device::float4_scaled_factors(static_cast<std::int32_t>(columns)), &factors, 16);
  }
  for (std::int64_t i = 0; is_float8(element) && i < columns; ++i) {
    const std::uint8_t* const group = file + i / 32 * 36;
    const auto place = i / 32 * 32 + device::float8_byte(static_cast<std::int32_t>(i % 32));
    out[static_cast<std::size_t>(place)] = static_cast<std::byte>(group[4 + i % 32]);
    const std::int64_t block = element == Element::fp8 ? 0 : i / 128;
    if (i % 128 == 0 && (i == 0 || block > 0)) std::memcpy(out.data() + columns + 4 * block, group, 4);
  }
  if (element >= Element::fp8) return out;
  for (std::int64_t unit = 0; unit < columns / 128; ++unit) {
    const std::int64_t half = unit % 2;
    const auto code_at = [&](std::uint8_t* codes, int i, int code) {
      codes[device::code_byte(i)] |= static_cast<std::uint8_t>(code << (i % 32 < 16 ? 0 : 4));
    };
    // Both have Q4_K's scales, and codes of 4 bits, which begin at `codes`.
    const auto put_fours = [&](auto& made, const std::uint8_t* block, const std::uint8_t* codes) {
      made.scale = formats::load_half(block), made.minimum = formats::load_half(block + 2);
      for (int i = 0; i < 128; ++i) {
        int scale = 0, minimum = 0;
        formats::scale_min(static_cast<int>(4 * half) + i / 32, block + 4, scale, minimum);
        made.scales[i / 32] = static_cast<std::uint8_t>(scale);
        made.minima[i / 32] = static_cast<std::uint8_t>(minimum);
        code_at(made.codes, i, codes[64 * half + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15);
      }
    };
    if (element == Element::q4_k) {
      const std::uint8_t* const block = file + unit / 2 * dtype_info(DType::q4_k).block_bytes;
      device::Quantized4K made = {};
      put_fours(made, block, block + 16);
      std::memcpy(out.data() + unit * std::ssize(out) / (columns / 128), &made, sizeof made);
    } else if (element == Element::q5_k) {
      const std::uint8_t* const block = file + unit / 2 * dtype_info(DType::q5_k).block_bytes;
      device::Quantized5K made = {};
      put_fours(made, block, block + 48);
      for (int i = 0; i < 128; ++i) {
        const int high = block[16 + i % 32] >> (4 * half + i / 32) & 1;
        made.high[device::code_byte(i % 32)] |= static_cast<std::uint8_t>(high << device::fifth_bit(i));
      }
      std::memcpy(out.data() + unit * std::ssize(out) / (columns / 128), &made, sizeof made);
    } else {
      const std::uint8_t* const block = file + unit / 2 * dtype_info(DType::q6_k).block_bytes;
      device::Quantized6K made = {};
      made.scale = formats::load_half(block + 208);
      std::memcpy(made.scales, block + 192 + 8 * half, sizeof made.scales);
      for (int i = 0; i < 128; ++i) {
        code_at(made.codes, i, block[64 * half + i / 32 % 2 * 32 + i % 32] >> (i / 64 * 4) & 15);
        const int high = block[128 + 32 * half + i % 32] >> (i / 32 * 2) & 3;
        made.high[device::high_byte(i)] |= static_cast<std::uint8_t>(high << device::high_shift(i));
      }
      std::memcpy(out.data() + unit * std::ssize(out) / (columns / 128), &made, sizeof made);
    }
  }
  return out;
}

TEST(StoredRow, HasTheBytesOfThePlainForm) {
  std::mt19937_64 rng(5);
  for (const auto& [dtype, element] : {std::pair{DType::q4_k, Element::q4_k},
                                       {DType::q5_k, Element::q5_k},
                                       {DType::q6_k, Element::q6_k},
                                       {DType::fp8, Element::fp8},
                                       {DType::fp8, Element::fp8_blocks},
                                       {DType::mxfp4, Element::mxfp4},
                                       {DType::nvfp4, Element::nvfp4},
                                       {DType::nvfp4_scaled, Element::nvfp4},
                                       {DType::f32, Element::bf16},
                                       {DType::f16, Element::bf16},
                                       {DType::bf16, Element::bf16},
                                       {DType::q3_k, Element::bf16},
                                       {DType::f32, Element::f32},
                                       {DType::q3_k, Element::f32}}) {
    SCOPED_TRACE(dtype_info(dtype).name);
    RowsInMemory stored = stored_of(dtype, 3, 40, 2560);
    if (!is_quantized(dtype))  // every bit pattern: NaNs, too
      for (std::byte& byte : stored.file) byte = static_cast<std::byte>(rng());
    for (std::int64_t row = 0; row < stored.view.rows(); ++row) {
      const std::vector<std::byte> wanted = plainly_on_device(element, stored.view, row);
      std::vector<std::byte> made(wanted.size());
      write_row(element, stored.view, row, made.data());
      ASSERT_EQ(made, wanted) << row;
    }
  }
}

// Goal: the bytes there are those of the rows, whatever the stages, the threads and the order of the streams.
TEST(WeightUpload, BringsTheSameBytesInAnyOrder) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng() % n); };
    device::KernelBench bench(seed);
    ThreadPool pool(3);
    WeightUpload upload(bench.device(), bench.stream(), below(2) == 0 ? &pool : nullptr,
                        std::array{96, 4096, 1 << 20}[static_cast<std::size_t>(below(3))]);
    std::vector<RowsInMemory> matrices;
    std::vector<std::pair<std::byte*, std::vector<std::byte>>> placed;
    for (int i = 0; i < 6; ++i) {
      const Element element = below(2) == 0 ? Element::bf16 : Element::f32;
      const std::int64_t columns = 1 + below(300);
      std::vector<TensorView> views;
      std::vector<std::byte> wanted;
      for (std::int64_t count = 1 + below(3); count > 0; --count) {
        matrices.push_back(
            stored_of(below(2) == 0 ? DType::f32 : DType::bf16, rng(), 1 + below(90), columns));
        views.push_back(matrices.back().view);
        const std::vector<std::byte> one = on_device(element, views.back());
        wanted.insert(wanted.end(), one.begin(), one.end());
      }
      auto* const to = bench.make<std::byte>(wanted.size());
      ASSERT_TRUE(upload.send_rows(views, element, to).ok());
      placed.emplace_back(to, wanted);
      std::vector<std::byte> values(static_cast<std::size_t>(1 + below(20'000)), std::byte(i));
      auto* const there = bench.make<std::byte>(values.size());
      ASSERT_TRUE(upload.send(there, values).ok());
      placed.emplace_back(there, values);
      std::ranges::fill(values, std::byte(0xff));  // it may go
      if (below(4) == 0) ASSERT_TRUE(upload.finish().ok());
    }
    for (const auto& [to, wanted] : placed) EXPECT_EQ(bench.get(to, wanted.size()), wanted);
  }
}

class StoredRows : public ::testing::TestWithParam<DType> {};

TEST_P(StoredRows, ProductsHaveTheBitsOfWidenedWeights) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    const std::int32_t rows = 3, n = 21 + static_cast<std::int32_t>(seed), k = 256 * (seed % 2 == 0 ? 1 : 2);
    const RowsInMemory weights = stored_of(GetParam(), seed, n, k);
    const auto element = quantized_element(std::span(&weights.view, 1));
    ASSERT_TRUE(element.has_value());
    const std::vector<float> x = random_floats(seed + 9, static_cast<std::size_t>(rows * k));
    const auto product = [&](Element of) {
      device::KernelBench bench(seed);
      device::LinearArgs args;
      args.x = bench.put(x);
      args.weight = bench.put(on_device(of, weights.view));
      args.y = bench.make<float>(static_cast<std::size_t>(rows * n));
      args.rows = rows;
      args.n = n;
      args.k = k;
      EXPECT_TRUE(bench.run().linear(of, args).ok());
      return bench.get(args.y, static_cast<std::size_t>(rows * n));
    };
    EXPECT_TRUE(same_bits(product(*element), product(Element::f32)));
  }
}

// Between two as long, or from zero.
float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - (b.empty() ? 0 : b.at(i))));
  return largest;
}

// By tiles, the same bits as the same weights in bfloat16. Of 4 bits with a minimum, which the kernels add in
// an order of their own (device/product_kernels_test.cc), all forms have the same bits; 8-bit floats are not
// rounded.
TEST_P(StoredRows, ProductsByTilesAreThoseOfOtherForms) {
  const std::int32_t n = 19, k = 512;
  const RowsInMemory weights = stored_of(GetParam(), 3, n, k);
  const auto element = quantized_element(std::span(&weights.view, 1));
  ASSERT_TRUE(element.has_value());
  for (const std::int32_t rows : {2, 17, 40, 130}) {
    const std::vector<float> x = random_floats(9, static_cast<std::size_t>(rows * k));
    const auto product = [&](Element of) {
      device::KernelBench bench(1);
      device::LinearArgs args;
      args.x = bench.put(x);
      args.weight = bench.put(on_device(of, weights.view));
      args.y = bench.make<float>(static_cast<std::size_t>(rows * n));
      args.rows = rows;
      args.n = n;
      args.k = k;
      args.rounded = bench.make<std::uint16_t>(static_cast<std::size_t>(rows * k));
      EXPECT_TRUE(bench.run().linear_tiles(of, args).ok());
      return bench.get(args.y, static_cast<std::size_t>(rows * n));
    };
    const std::vector<float> kept = product(*element);
    if (*element == Element::q8 || *element == Element::q6_k || *element == Element::mxfp4 ||
        GetParam() == DType::nvfp4)
      EXPECT_TRUE(same_bits(kept, product(Element::bf16)));
    else if (is_float8(*element) || *element == Element::nvfp4)
      EXPECT_LE(largest_difference(kept, product(Element::bf16)), 0.01f * largest_difference(kept, {}));
    else
      EXPECT_TRUE(*element == Element::q5_k ? largest_difference(kept, product(Element::bf16)) <=
                                                  0.01f * largest_difference(kept, {})
                                            : same_bits(kept, product(Element::q4)));
  }
}

TEST_P(StoredRows, ExpertsToo) {
  const std::int32_t experts = 3, pairs = 6, n = 18, k = 256;
  const RowsInMemory weights = stored_of(GetParam(), 5, experts * n, k);
  const auto element = quantized_element(std::span(&weights.view, 1));
  ASSERT_TRUE(element.has_value());
  const std::vector<float> x = random_floats(9, static_cast<std::size_t>(pairs * k));
  const auto product = [&](Element of) {
    device::KernelBench bench(1);
    device::GroupedLinearArgs args;
    args.x = bench.put(x);
    args.weight = bench.put(on_device(of, weights.view));
    args.y = bench.make<float>(static_cast<std::size_t>(pairs * n));
    args.tiles = bench.put(std::vector<device::TileOfPairs>{{0, 0, 2}, {2, 2, 6}, {-1, 0, 0}, {-1, 0, 0}});
    args.slots = bench.put(std::vector<std::int32_t>{0, 3, 1, 2, 4, 5});
    args.pairs = pairs;
    args.experts = experts;
    args.n = n;
    args.k = k;
    args.pairs_of_row = 1;
    EXPECT_TRUE(bench.run().grouped_linear(of, args).ok());
    return bench.get(args.y, static_cast<std::size_t>(pairs * n));
  };
  EXPECT_TRUE(same_bits(product(*element), product(Element::f32)));
}

INSTANTIATE_TEST_SUITE_P(Types, StoredRows,
                         ::testing::Values(DType::q4_0, DType::q4_1, DType::q4_k, DType::q8_0, DType::q5_k,
                                           DType::q6_k, DType::fp8, DType::mxfp4, DType::nvfp4,
                                           DType::nvfp4_scaled),
                         [](const auto& info) { return std::string(dtype_info(info.param).name); });

TEST(StoredRowsOf, OtherAndMixedTypesAreWidened) {
  const RowsInMemory four = stored_of(DType::q4_1, 1, 2, 256), eight = stored_of(DType::q8_0, 1, 2, 256),
                     six = stored_of(DType::q6_k, 1, 2, 256), plain = stored_of(DType::bf16, 1, 2, 256);
  const auto of = [](std::vector<TensorView> views) { return quantized_element(views); };
  EXPECT_EQ(of({four.view, stored_of(DType::q4_k, 2, 1, 256).view}), Element::q4);
  EXPECT_EQ(of({four.view, eight.view}), std::nullopt);
  EXPECT_EQ(of({stored_of(DType::q4_k, 2, 1, 256).view}), Element::q4_k);
  EXPECT_EQ(of({six.view}), Element::q6_k);
  EXPECT_EQ(of({six.view, stored_of(DType::q4_k, 2, 1, 256).view}), std::nullopt);
  EXPECT_EQ(of({stored_of(DType::q5_k, 1, 2, 256).view}), Element::q5_k);
  EXPECT_EQ(of({stored_of(DType::q3_k, 1, 2, 256).view}), std::nullopt);
  EXPECT_EQ(of({stored_of(DType::nvfp4, 1, 2, 256).view, stored_of(DType::nvfp4_scaled, 1, 2, 256).view}),
            Element::nvfp4);
  EXPECT_EQ(of({plain.view}), std::nullopt);
}

// Scales of a file's blocks have no sign; the largest one is no number there, and the one with a sign is 480.
// A folder's scale that is none makes a row of none.
TEST(StoredRowsOf, ScalesOf4BitFloatsAreNumbers) {
  RowsInMemory file = stored_of(DType::nvfp4, 1, 1, 256), folder = stored_of(DType::nvfp4_scaled, 1, 1, 256);
  file.file[0] = std::byte{0x7f}, file.file[1] = std::byte{0xff}, file.file[2] = std::byte{0x81};
  const auto scales = [](const TensorView& view) {
    std::vector<std::byte> row = on_device(Element::nvfp4, view);
    device::Float4Factors factors;
    std::memcpy(&factors, row.data() + device::float4_scaled_factors(256), sizeof factors);
    return std::pair(std::vector(row.begin() + 128, row.begin() + 131), factors);
  };
  EXPECT_EQ(scales(file.view).first, (std::vector{std::byte{0}, std::byte{0x7f}, std::byte{1}}));
  EXPECT_EQ(scales(file.view).second.all, 1);
  EXPECT_FALSE(std::isnan(scales(folder.view).second.all));
  folder.file[44 + 9] = std::byte{0xff};
  EXPECT_TRUE(std::isnan(scales(folder.view).second.all) && std::isnan(scales(folder.view).second.factor));
}

// One scale for each row, for each 128 of its columns, or for fewer.
TEST(StoredRowsOf, EightBitFloatsAreKeptByTheirScales) {
  const std::int64_t rows = 3, columns = 288;
  RowsInMemory stored = stored_of(DType::fp8, 1, rows, columns);
  const auto element_with = [&](auto scale_of) {
    for (std::int64_t group = 0; group < rows * columns / 32; ++group) {
      const float scale = scale_of(group / (columns / 32), group % (columns / 32));
      std::memcpy(stored.file.data() + 36 * group, &scale, sizeof scale);
    }
    return quantized_element(std::span(&stored.view, 1));
  };
  EXPECT_EQ(element_with([](auto, auto) { return 0.5f; }), Element::fp8);
  EXPECT_EQ(element_with([](auto row, auto) { return 1.0f + static_cast<float>(row); }), Element::fp8);
  EXPECT_EQ(element_with([](auto, auto group) { return 1.0f + static_cast<float>(group / 4); }),
            Element::fp8_blocks);
  EXPECT_EQ(element_with([](auto, auto group) { return 1.0f + static_cast<float>(group / 2); }),
            std::nullopt);
}

}  // namespace
}  // namespace pagoda
