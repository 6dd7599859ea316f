// Goal: the checksum is XXH64. Method: values of the xxhash package 3.x for Python.
#include "base/xxh64.h"

#include <gtest/gtest.h>

#include <string>

namespace pagoda {
namespace {

std::string ascending(int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<char>(i % 256));
  return out;
}

TEST(Xxh64, IsThatOfTheSpecification) {
  const std::string long_text = ascending(1280) + "xyz";
  struct Case {
    std::string text;
    std::uint64_t plain, seeded;
  };
  for (const Case& one : {Case{"", 0xef46db3751d8e999u, 0x95f0626f6f0a4409u},
                          Case{"a", 0xd24ec4f1a98c6e5bu, 0xdc6349d489e0f965u},
                          Case{"abc", 0x44bc2cf5ad770999u, 0x9e755206156676d7u},
                          Case{ascending(31), 0xc346d2b59b4d8ee1u, 0x0bdbbcaead6c6e56u},
                          Case{ascending(32), 0xcbf59c5116ff32b4u, 0xa5972d57c4aea230u},
                          Case{long_text, 0xafd18a3957d3670au, 0x8c974c9066dfd8eeu}}) {
    EXPECT_EQ(xxh64(one.text), one.plain) << one.text.size();
    EXPECT_EQ(xxh64(one.text, 7), one.seeded) << one.text.size();
  }
}

}  // namespace
}  // namespace pagoda
