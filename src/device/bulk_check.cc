#include "device/bulk_check.h"

#include <bit>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "device/kernel_launches.h"
#include "device/kernels/launch_shapes.h"

namespace pagoda::device {
namespace {

constexpr std::int32_t kRows = 64, kColumns = 128, kDepth = 64;
// Exponents of a row's factors, from these on: sums whose terms are far apart, and sums too small to be
// normal. Rows of x and of the weights take them in turn, so that all of them meet.
constexpr std::uint32_t kExponents = 24, kLeast[] = {100, 40, 1};

std::uint16_t drawn(std::uint64_t stream, std::uint64_t i) {
  const auto bits = static_cast<std::uint32_t>(random_bits(11, stream, i));
  const std::uint32_t least = kLeast[i / kDepth % std::size(kLeast)];
  return static_cast<std::uint16_t>((bits & 0x807Fu) | (least + (bits >> 16) % kExponents) << 7);
}

class Check {
 public:
  Check(Device& device, StreamId stream) : device_(device), stream_(stream) {}
  ~Check() {
    for (std::byte* memory : memory_) (void)device_.free(memory);
    for (std::byte* memory : pinned_) (void)device_.free_pinned(memory);
  }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  Status run() {
    constexpr std::size_t kIn = std::size_t{4} * kRows * kDepth, kOut = std::size_t{4} * kRows * kColumns;
    for (const std::size_t bytes : {kIn, std::size_t{2} * kColumns * kDepth, kOut,
                                    2 * static_cast<std::size_t>(slab_elements(kRows, kDepth))}) {
      auto memory = device_.allocate(bytes, "a check of products");
      if (!memory) return memory.error();
      memory_.push_back(*memory);
    }
    for (const std::size_t bytes : {kIn, std::size_t{2} * kColumns * kDepth, kOut}) {
      auto memory = device_.allocate_pinned(bytes);
      if (!memory) return memory.error();
      pinned_.push_back(*memory);
    }
    return compare();
  }

 private:
  using Form = KernelLaunches::ProductForm;

  Status compare() {
    for (std::size_t i = 0; i < std::size_t{kRows} * kDepth; ++i) {
      const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(drawn(1, i)) << 16);
      std::memcpy(pinned_[0] + 4 * i, &value, 4);
    }
    for (std::size_t i = 0; i < std::size_t{kColumns} * kDepth; ++i) {
      const std::uint16_t value = drawn(2, i);
      std::memcpy(pinned_[1] + 2 * i, &value, 2);
    }
    PAGODA_RETURN_IF_ERROR(device_.copy_in(stream_, memory_[0], pinned_[0], std::size_t{4} * kRows * kDepth));
    PAGODA_RETURN_IF_ERROR(
        device_.copy_in(stream_, memory_[1], pinned_[1], std::size_t{2} * kColumns * kDepth));
    std::vector<std::byte> wanted;
    for (const Form form : {Form::several, Form::bulk_64, Form::bulk_128, Form::bulk_256, Form::narrow_32,
                            Form::narrow_48, Form::narrow_64, Form::narrow_112}) {
      if (form >= Form::narrow_32 && choices::narrow_rows == 0) break;
      LinearArgs args = {.x = reinterpret_cast<const float*>(memory_[0]), .weight = memory_[1]};
      args.y = reinterpret_cast<float*>(memory_[2]);
      args.rounded = reinterpret_cast<std::uint16_t*>(memory_[3]);
      args.rows = kRows;
      args.n = kColumns;
      args.k = kDepth;
      constexpr std::size_t kOut = std::size_t{4} * kRows * kColumns;
      PAGODA_RETURN_IF_ERROR(KernelLaunches(device_, stream_).linear_tiles(Element::bf16, args, form));
      PAGODA_RETURN_IF_ERROR(device_.copy_out(stream_, pinned_[2], memory_[2], kOut));
      PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
      if (wanted.empty()) wanted.assign(pinned_[2], pinned_[2] + kOut);
      if (std::memcmp(wanted.data(), pinned_[2], kOut) != 0)
        return unavailable(concat(device_.describe(),
                                  ": products by warpgroups have other bits than those by warps; "
                                  "build with bulk_rows and narrow_rows 0 (src/device/kernels/choices.def)"));
    }
    return ok_status();
  }

  Device& device_;
  StreamId stream_;
  std::vector<std::byte*> memory_, pinned_;
};

}  // namespace

bool takes_bulk_products(std::int64_t rows) {
  return (choices::bulk_rows > 0 && rows >= choices::bulk_rows) ||
         (choices::widened_rows > 0 && rows >= choices::widened_rows) ||
         (choices::narrow_rows > 0 && rows >= choices::narrow_rows);
}

Status check_bulk_products(Device& device, StreamId stream) {
  return device.has_warpgroups() ? Check(device, stream).run() : ok_status();
}

}  // namespace pagoda::device
