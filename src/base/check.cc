#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pagoda {

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "pagoda: CHECK failed at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace pagoda
