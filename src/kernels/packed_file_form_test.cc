// Goal: what is packed, written to a file, mapped and computed with gives the bits of what is packed in
// memory, for every stored type, arithmetic and CPU level; and no description leads outside of its bytes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/linear.h"
#include "kernels/testing.h"
#include "kernels/weight_format.h"

namespace pagoda {
namespace {

// Through a real file, read-only, as the cache has it.
PackedLinear written_and_mapped(const PackedLinear& packed) {
  const std::string path = ::testing::TempDir() + "/packed_form_" + std::to_string(::getpid()) + ".bin";
  const auto bytes = packed.bytes();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0);
  const std::size_t size = bytes.size();
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  CHECK(address != MAP_FAILED);
  ::close(file);
  std::filesystem::remove(path);
  const std::shared_ptr<const void> owner(address,
                                          [size](const void* at) { ::munmap(const_cast<void*>(at), size); });
  auto mapped =
      PackedLinear::map(packed.description(), {static_cast<const std::byte*>(address), size}, owner);
  CHECK(mapped.has_value());
  return *std::move(mapped);
}

std::vector<float> product_in_form(const KernelContext& context, const PackedLinear& packed,
                                   const std::vector<float>& x, std::int64_t rows, LinearForm form) {
  std::vector<float> y(static_cast<std::size_t>(rows * packed.n()), 7.0f);
  LinearOutput output;
  if (form == LinearForm::gated) output.activation = Activation::silu;
  linear(context, packed, LinearInput::rows(x.data(), packed.k()), rows, Buffer::of(y.data(), packed.n()),
         output);
  return y;
}

TEST(PackedFileForm, ComputesTheBitsOfMemory) {
  const std::vector<float> bias = random_floats(3, 2 * 37);
  std::vector<KernelContext> contexts = {{.backend = Backend::reference}};
  for (const CpuLevel level : levels_here()) contexts.push_back({.backend = Backend::cpu, .level = level});
  for (const KernelContext& context : contexts) {
    for (const LinearType type : kLinearTypes) {
      for (const DType stored : weight_types()) {
        for (const LinearForm form : {LinearForm::stacked, LinearForm::gated}) {
          for (const bool with_bias : {false, true}) {
            SCOPED_TRACE(::testing::Message()
                         << cpu_level_name(context.level) << " " << static_cast<int>(type) << " "
                         << dtype_info(stored).name << " " << static_cast<int>(form));
            const std::int64_t block = dtype_info(stored).block_elements, k = block == 1    ? 75
                                                                              : block == 32 ? 96
                                                                                            : 256;
            WeightBytes weights;
            weights.add(1, stored, 37, k);
            weights.add(2, form == LinearForm::gated || k % 32 != 0 ? stored : DType::q8_0, 37, k);
            auto memory = PackedLinear::pack(context, type, weights.views,
                                             with_bias ? bias : std::vector<float>{}, form);
            ASSERT_TRUE(memory.has_value());
            const PackedLinear mapped = written_and_mapped(*memory);
            EXPECT_EQ(mapped.n(), memory->n());
            EXPECT_EQ(mapped.k(), memory->k());
            EXPECT_EQ(mapped.type(), memory->type());
            EXPECT_EQ(mapped.multiplications(), memory->multiplications());
            EXPECT_EQ(mapped.packed_bytes(), memory->packed_bytes());
            EXPECT_EQ(mapped.description(), memory->description());
            const std::vector<float> x = random_floats(4, static_cast<std::size_t>(33 * k));
            for (const std::int64_t rows : {1, 3, 33})
              ASSERT_TRUE(same_bits(product_in_form(context, mapped, x, rows, form),
                                    product_in_form(context, *memory, x, rows, form)))
                  << rows << " rows";
          }
        }
      }
    }
  }
}

// Any level may map what another one packed, but for points of a table, which are packed for AVX-512 alone.
TEST(PackedFileForm, IsTheSameBytesAtEveryLevel) {
  for (const LinearType type : kLinearTypes) {
    for (const DType stored : weight_types()) {
      WeightBytes weights;
      weights.add(1, stored, 37, 256);
      std::vector<std::byte> first;
      for (const CpuLevel level : levels_here()) {
        auto packed = PackedLinear::pack({.backend = Backend::cpu, .level = level}, type, weights.views);
        ASSERT_TRUE(packed.has_value());
        const auto bytes = packed->bytes();
        const bool points =
            type == LinearType::int8 && weight_format(stored).point_panels != PackedFormat::plain;
        if (points && level == CpuLevel::avx512) continue;
        if (first.empty()) first.assign(bytes.begin(), bytes.end());
        EXPECT_TRUE(std::ranges::equal(first, bytes))
            << cpu_level_name(level) << " " << static_cast<int>(type) << " " << dtype_info(stored).name;
      }
    }
  }
}

// Any change either is refused or leaves a matrix that stays within its bytes.
TEST(PackedFileForm, NoDescriptionLeadsOutsideOfItsBytes) {
  WeightBytes weights;
  weights.add(1, DType::q4_1, 37, 96);
  weights.add(2, DType::q8_0, 20, 96);
  const KernelContext context;
  auto packed = PackedLinear::pack(context, LinearType::int8, weights.views, random_floats(3, 57));
  ASSERT_TRUE(packed.has_value());
  const std::string description = packed->description();
  const auto bytes = packed->bytes();
  const auto owner = std::make_shared<int>(0);
  const auto try_one = [&](std::string_view text, std::span<const std::byte> data) {
    auto mapped = PackedLinear::map(text, data, owner);
    if (!mapped) return false;
    const std::vector<float> x(static_cast<std::size_t>(mapped->k()), 1.0f);
    if (mapped->bytes().size() == data.size()) product_in_form(context, *mapped, x, 1, LinearForm::stacked);
    return true;
  };
  EXPECT_TRUE(try_one(description, bytes));
  for (std::size_t size = 0; size < description.size(); ++size)
    EXPECT_FALSE(try_one(std::string_view(description).substr(0, size), bytes)) << size;
  EXPECT_FALSE(try_one(description + '\0', bytes));
  EXPECT_FALSE(try_one(description, bytes.first(bytes.size() - 1)));
  EXPECT_FALSE(try_one(description, bytes.subspan(4)));
  constexpr std::size_t kNumbers = 4 + 3 + 16 + 4 + 2 * 9 + 8;  // all but the biases
  for (std::size_t at = 0; at < kNumbers; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = description;
      changed[at] = static_cast<char>(changed[at] ^ 1 << bit);
      if (changed[6] == 1) continue;  // gated asks for an activation
      try_one(changed, bytes);
    }
  }
}

}  // namespace
}  // namespace pagoda
