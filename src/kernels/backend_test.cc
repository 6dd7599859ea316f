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

TEST(CpuLevel, TheDetectedOneIsTheHighestUsable) {
  EXPECT_TRUE(cpu_level_usable(CpuLevel::portable));
  EXPECT_TRUE(cpu_level_usable(detected_cpu_level()));
  for (const CpuLevel level : {CpuLevel::avx2, CpuLevel::avx512}) {
    if (level > detected_cpu_level()) EXPECT_FALSE(cpu_level_usable(level)) << cpu_level_name(level);
  }
  if (missing_cpu_level()) EXPECT_FALSE(cpu_level_usable(*missing_cpu_level()));
}

}  // namespace
}  // namespace pagoda
