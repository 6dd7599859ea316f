#include "kernels/backend.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

TEST(CpuLevel, IsFoundByItsName) {
  for (const CpuLevel level : {CpuLevel::portable, CpuLevel::avx2, CpuLevel::avx512})
    EXPECT_EQ(cpu_level_named(cpu_level_name(level)), level);
  for (const char* name : {"", "auto", "avx", "AVX2", "avx512 "})
    EXPECT_EQ(cpu_level_named(name), std::nullopt) << name;
}

}  // namespace
}  // namespace pagoda
