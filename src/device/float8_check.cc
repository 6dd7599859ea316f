#include "device/float8_check.h"

#include <algorithm>

#include "base/random.h"
#include "device/check_memory.h"
#include "device/kernel_launches.h"
#include "device/kernels/float8_args.h"

namespace pagoda::device {
namespace {

// Tiles are partial, and so is the last kFloat8Scale.
constexpr std::int32_t kCheckRows = 70, kCheckColumns = 210, kCheckDepth = 160;

enum class Numbers { whole, of_every_size };

std::uint32_t drawn_bits(std::uint64_t stream, std::size_t which) {
  return static_cast<std::uint32_t>(random_bits(12, stream, which));
}

// Whole: 448 once per scale, so that the scale is 1; otherwise -2 to 2.
std::vector<float> inputs(Numbers numbers) {
  std::vector<float> x;
  for (std::int32_t row = 0; row < kCheckRows; ++row)
    for (std::int32_t i = 0; i < kCheckDepth; ++i) {
      const std::uint32_t bits = drawn_bits(1, x.size());
      if (numbers == Numbers::whole)
        x.push_back(i % kFloat8Scale == 0 ? 448.0f : static_cast<float>(bits % 5) - 2);
      else
        x.push_back((static_cast<float>(bits % 2001) - 1000) * (bits >> 31 != 0 ? 1.0f : 1e-3f));
    }
  return x;
}

// Whole: 0 where x is 448; otherwise -2 to 2.
std::vector<std::byte> weights(Numbers numbers, bool blocks) {
  constexpr std::uint8_t kWhole[] = {0xC0, 0xB8, 0x00, 0x38, 0x40};  // e4m3
  std::vector<std::byte> all;
  for (std::int32_t n = 0; n < kCheckColumns; ++n) {
    std::vector<std::byte> row(static_cast<std::size_t>(float8_row_bytes(kCheckDepth, blocks)));
    for (std::int32_t i = 0; i < kCheckDepth; ++i) {
      const std::uint32_t bits = drawn_bits(2, all.size() + static_cast<std::size_t>(i));
      const auto code = static_cast<std::uint8_t>(bits >> 8);
      const std::uint8_t any = (code & 0x7F) == 0x7F ? 0 : code;
      row[static_cast<std::size_t>(i / 32 * 32 + float8_byte(i % 32))] =
          static_cast<std::byte>(numbers == Numbers::of_every_size ? any
                                 : i % kFloat8Scale == 0           ? 0
                                                                   : kWhole[bits % 5]);
    }
    for (std::int32_t i = 0; i < (blocks ? (kCheckDepth + kFloat8Scale - 1) / kFloat8Scale : 1); ++i) {
      const float scale =
          0.01f * static_cast<float>(1 + drawn_bits(3, static_cast<std::size_t>(4 * n + i)) % 100);
      std::memcpy(row.data() + kCheckDepth + 4 * i, &scale, sizeof scale);
    }
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

class Float8Products {
 public:
  Float8Products(Device& device, StreamId stream) : memory_(device, stream), launches_(device, stream) {}

  bool is_right(Element element, Numbers numbers) {
    const bool blocks = element == Element::fp8_blocks;
    const float* const x = memory_.put(inputs(numbers));
    const std::byte* const weight = memory_.put(weights(numbers, blocks));
    auto* const codes = memory_.room<std::uint8_t>(
        static_cast<std::size_t>(KernelLaunches::float8_input_bytes(element, kCheckRows, kCheckDepth)));
    LinearArgs args = {.weight = weight, .rows = kCheckRows, .n = kCheckColumns, .k = kCheckDepth};
    args.rounded = reinterpret_cast<std::uint16_t*>(codes);
    if (memory_.status().ok())
      memory_.keep(launches_.quantize_rows(
          {.x = x, .out = codes, .rows = kCheckRows, .width = kCheckDepth, .blocks = blocks ? 1 : 0}));
    std::vector<float> wanted;
    if (numbers == Numbers::whole) {
      LinearArgs by_warps = args;
      by_warps.x = x;
      by_warps.rounded = memory_.room<std::uint16_t>(
          static_cast<std::size_t>(KernelLaunches::rounded_elements(kCheckRows, kCheckDepth)));
      wanted = product(by_warps, [&](const LinearArgs& of) {
        return launches_.linear_tiles(element, of, KernelLaunches::ProductForm::some);
      });
    }
    for (std::size_t form = 0; form < KernelLaunches::kFloat8Forms; ++form) {
      const std::vector<float> got = product(args, [&](const LinearArgs& of) {
        return launches_.linear_float8(element, of, static_cast<KernelLaunches::Float8Form>(form));
      });
      if (wanted.empty()) wanted = got;
      if (got.empty() || std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)) != 0)
        return false;
    }
    return true;
  }
  const Status& status() const { return memory_.status(); }

 private:
  // Writes to memory that no other form has written, so that a form that writes nothing is detected. Empty on
  // error.
  template <class Launch>
  std::vector<float> product(LinearArgs args, const Launch& launch) {
    constexpr auto kSize = static_cast<std::size_t>(kCheckRows) * kCheckColumns;
    args.y = memory_.room<float>(kSize);
    if (memory_.status().ok()) memory_.keep(launch(args));
    return memory_.get(args.y, kSize);
  }

  CheckMemory memory_;
  KernelLaunches launches_;
};

}  // namespace

Result<bool> check_float8_products(Device& device, StreamId stream) {
  for (const Element element : {Element::fp8, Element::fp8_blocks})
    for (const Numbers numbers : {Numbers::whole, Numbers::of_every_size}) {
      Float8Products check(device, stream);
      const bool right = check.is_right(element, numbers);
      if (!check.status().ok()) return check.status();
      if (!right) return false;
    }
  return true;
}

}  // namespace pagoda::device
