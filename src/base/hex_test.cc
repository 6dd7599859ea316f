#include "base/hex.h"

#include <gtest/gtest.h>

#include <array>

namespace pagoda {
namespace {

TEST(Hex, GoesThereAndBack) {
  const std::array bytes{std::byte{0x00}, std::byte{0x1f}, std::byte{0xa9}, std::byte{0xff}};
  EXPECT_EQ(hex_of(bytes), "001fa9ff");
  std::array<std::byte, 4> read{};
  for (const std::string_view text : {"001fa9ff", "001FA9FF", "001fA9fF"}) {
    ASSERT_TRUE(read_hex(text, read)) << text;
    EXPECT_EQ(read, bytes);
  }
}

TEST(Hex, RefusesWhatIsNotTwoDigitsAByte) {
  std::array<std::byte, 2> read{};
  for (const std::string_view text : {"", "001", "00112", "0g11", "g011", "0 11", " 011", "-111", "0x11"})
    EXPECT_FALSE(read_hex(text, read)) << text;
}

}  // namespace
}  // namespace pagoda
