#pragma once
// CHECK(condition): states what must hold in a correct program; active in every build. Input must never be
// able to fail a CHECK: bad input returns a Status. A failed CHECK prints its location and aborts.

namespace pagoda {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}  // namespace pagoda

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) [[unlikely]]                                 \
      ::pagoda::check_failed(#condition, __FILE_NAME__, __LINE__); \
  } while (false)

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif
