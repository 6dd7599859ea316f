#include "tensor/page_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tensor/system_limits.h"

namespace pagoda {
namespace {

std::byte* block(const PageArena& arena, std::int64_t index, std::int32_t tensor = 0) {
  return arena.data() + tensor * arena.tensor_stride() + index * arena.shape().page_bytes;
}

TEST(PageArena, APageIsSeenWhereverItIsShown) {
  auto arena = PageArena::create({.page_bytes = 8192, .num_tensors = 2, .num_pages = 4, .num_blocks = 100});
  ASSERT_TRUE(arena.has_value()) << arena.error().message();
  ASSERT_TRUE(arena->create_pages(0, 4).ok());
  ASSERT_TRUE(arena->map(10, 1, 3).ok());
  ASSERT_TRUE(arena->map(50, 2, 1).ok());
  for (const std::int32_t tensor : {0, 1}) {
    std::memset(block(*arena, 11, tensor), 7 + tensor, 8192);
    EXPECT_EQ(block(*arena, 50, tensor)[8191], std::byte(7 + tensor)) << "shared";
    EXPECT_EQ(arena->page(2, tensor)[0], std::byte(7 + tensor)) << "through the window";
    EXPECT_EQ(block(*arena, 10, tensor)[8191], std::byte(0));
  }
  ASSERT_TRUE(arena->map(50, 3, 1).ok()) << "replaced";
  EXPECT_EQ(block(*arena, 50)[0], std::byte(0));
  ASSERT_TRUE(arena->unmap(0, 100).ok());
  EXPECT_EQ(arena->page(2, 1)[5], std::byte(8)) << "the page keeps its content";
  PageArena moved = *std::move(arena);
  EXPECT_EQ(moved.page(2, 1)[5], std::byte(8));
}

TEST(PageArena, GapsCanBeReadWhereThatIsAskedFor) {
  auto arena =
      PageArena::create({.page_bytes = 8192, .num_pages = 2, .num_blocks = 9, .gaps_are_zeros = true});
  ASSERT_TRUE(arena.has_value()) << arena.error().message();
  ASSERT_TRUE(arena->create_pages(0, 2).ok());
  ASSERT_TRUE(arena->map(3, 0, 2).ok());
  std::memset(block(*arena, 3), 7, 2 * 8192);
  ASSERT_TRUE(arena->unmap(4, 1).ok());
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(block(*arena, i)[8191], std::byte(i == 3 ? 7 : 0)) << i;
  EXPECT_DEATH(block(*arena, 4)[0] = std::byte(1), "");
  auto strict = PageArena::create({.page_bytes = 8192, .num_pages = 1, .num_blocks = 1});
  EXPECT_DEATH((void)*static_cast<volatile std::byte*>(block(*strict, 0)), "");
}

TEST(PageArena, RefusesWhatCannotBe) {
  const auto error = [](PageArenaShape shape) { return PageArena::create(shape).error().message(); };
  EXPECT_NE(error({.page_bytes = 5000, .num_pages = 1, .num_blocks = 1}).find("multiple of 4096"),
            std::string::npos);
  EXPECT_NE(
      error({.page_bytes = 4096, .num_pages = 1, .num_blocks = std::int64_t{1} << 40}).find("address space"),
      std::string::npos);
  EXPECT_FALSE(PageArena::create({.page_bytes = 4096, .num_pages = 0, .num_blocks = 1}).has_value());
}

TEST(PageArena, MemoryThatIsNotThereIsRefusedBeforeAnyIsTaken) {
  const std::int64_t pages = available_memory_bytes() / (2 << 20) + 1000;
  auto arena = PageArena::create({.page_bytes = 2 << 20, .num_pages = pages, .num_blocks = 4});
  ASSERT_TRUE(arena.has_value()) << arena.error().message();
  const std::int64_t before = available_memory_bytes();
  const Status status = arena->create_pages(0, pages);
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_NE(status.message().find("not enough memory for"), std::string::npos) << status.message();
  EXPECT_GT(available_memory_bytes(), before / 2);
  EXPECT_TRUE(arena->create_pages(0, 2).ok());
}

TEST(PageArena, PagesTakeMemoryFromTheirUseUntilTheyAreDiscarded) {
  constexpr std::int64_t kPages = 64, kPage = 64 << 10;
  auto arena =
      PageArena::create({.page_bytes = kPage, .num_tensors = 2, .num_pages = kPages, .num_blocks = kPages});
  ASSERT_TRUE(arena.has_value());
  ASSERT_TRUE(arena->create_pages(0, kPages).ok());
  const auto resident = [&](std::int64_t page, std::int32_t tensor) {
    std::vector<unsigned char> parts(kPage / 4096);
    EXPECT_EQ(mincore(arena->page(page, tensor), kPage, parts.data()), 0);
    return std::ranges::all_of(parts, [](unsigned char part) { return (part & 1) != 0; });
  };
  EXPECT_FALSE(resident(0, 0)) << "created is not resident";
  EXPECT_TRUE(arena->populate(0, 2));
  ASSERT_TRUE(arena->map(5, 2, 2).ok());
  for (const std::int32_t tensor : {0, 1}) {
    for (std::int64_t page = 0; page < 4; ++page) EXPECT_TRUE(resident(page, tensor));
  }
  std::byte* const shown = arena->data() + arena->tensor_stride() + 5 * kPage;
  shown[0] = std::byte{7};
  arena->page(63, 1)[0] = std::byte{9};
  arena->discard(0, 3);
  for (const std::int32_t tensor : {0, 1}) {
    EXPECT_FALSE(resident(0, tensor) || resident(2, tensor));
    EXPECT_TRUE(resident(3, tensor)) << "its neighbour keeps it";
  }
  EXPECT_EQ(shown[0], std::byte{0}) << "still shown, and fresh";
  shown[0] = std::byte{8};
  EXPECT_EQ(arena->page(2, 1)[0], std::byte{8});
  EXPECT_EQ(arena->page(63, 1)[0], std::byte{9});
}

// The manager relies on it: adjacent blocks on adjacent pages are one mapping, others one each.
TEST(PageArena, AdjacentPagesAreOneMapping) {
  auto arena = PageArena::create({.page_bytes = 4096, .num_pages = 64, .num_blocks = 64});
  ASSERT_TRUE(arena.has_value());
  ASSERT_TRUE(arena->create_pages(0, 64).ok());
  const auto regions = [&] {
    std::ifstream maps("/proc/self/maps");
    const auto first = reinterpret_cast<std::uintptr_t>(arena->data());
    int count = 0;
    for (std::string line; std::getline(maps, line);) {
      const std::uintptr_t at = std::stoull(line, nullptr, 16);
      count += at >= first && at < first + 64 * 4096 ? 1 : 0;
    }
    return count;
  };
  for (std::int64_t i = 0; i < 8; ++i) ASSERT_TRUE(arena->map(8 + i, i, 1).ok());
  EXPECT_LE(regions(), 2) << "one, and the rest of the reservation, which began before";
  for (std::int64_t i = 0; i < 8; ++i) ASSERT_TRUE(arena->map(8 + i, 2 * i, 1).ok());
  EXPECT_LE(regions(), 9);
  EXPECT_GE(regions(), 8);
  ASSERT_TRUE(arena->unmap(8, 8).ok());
  EXPECT_LE(regions(), 1);
}

TEST(SystemLimits, AreRead) {
  EXPECT_GT(available_memory_bytes(), 1 << 20);
  EXPECT_GT(available_mappings(), 100);
}

}  // namespace
}  // namespace pagoda
