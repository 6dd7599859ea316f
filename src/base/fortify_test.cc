// The C library checks sizes, where the compiler can tell them (cmake/compiler.cmake): in every build but one
// for debugging, whose compiler tells none.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

namespace {

// The compiler cannot see through it.
std::size_t opaque(std::size_t value) {
  volatile std::size_t kept = value;
  return kept;
}

// Level 3: the size is known only once it runs.
void fill(std::size_t size, std::size_t count) {
  char* const room = static_cast<char*>(std::malloc(size));
  std::memset(room, 1, count);
  volatile char last = room[size - 1];
  static_cast<void>(last);
  std::free(room);
}

TEST(Fortify, AWritePastTheEndEndsTheProgram) {
#ifndef __OPTIMIZE__
  GTEST_SKIP() << "built without optimisation";
#endif
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "built with a sanitizer that looks for other faults";
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "built with a sanitizer that looks for other faults";
#endif
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  fill(opaque(8), opaque(8));
  EXPECT_DEATH(fill(opaque(8), opaque(9)), "buffer.overflow");  // a sanitizer's has hyphens
}

}  // namespace
