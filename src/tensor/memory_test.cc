#include "tensor/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

namespace pagoda {
namespace {

constexpr std::size_t kPage = 4096, kMebibyte = std::size_t{1} << 20;

std::size_t resident_pages(const Memory& memory, std::size_t offset, std::size_t bytes) {
  std::vector<unsigned char> pages((bytes + kPage - 1) / kPage);
  if (mincore(memory.data() + offset, bytes, pages.data()) != 0) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }));
}

TEST(Memory, PopulatedMemoryIsResidentAndKeepsItsContents) {
  auto memory = Memory::reserve(64 * kMebibyte);
  ASSERT_TRUE(memory.has_value()) << memory.error().message();
  memory->data()[10 * kMebibyte + 5] = std::byte{42};
  if (!memory->populate(8 * kMebibyte + 100, 3 * kMebibyte))
    GTEST_SKIP() << "this system cannot populate memory";
  EXPECT_EQ(resident_pages(*memory, 8 * kMebibyte, 3 * kMebibyte), 3 * kMebibyte / kPage);
  EXPECT_EQ(resident_pages(*memory, 32 * kMebibyte, 16 * kMebibyte), 0u);  // nothing far from it
  EXPECT_EQ(memory->data()[10 * kMebibyte + 5], std::byte{42});
  EXPECT_EQ(memory->data()[10 * kMebibyte + 6], std::byte{0});
  EXPECT_TRUE(memory->populate(64 * kMebibyte, 0));
}

}  // namespace
}  // namespace pagoda
