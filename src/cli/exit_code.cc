#include "cli/exit_code.h"

#include <cstdio>

#include "base/strings.h"

namespace pagoda {

int fail(std::string_view message) {
  std::string line = concat("pagoda: ", message);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  line.push_back('\n');
  std::fputs(line.c_str(), stderr);
  return kExitUsage;
}

int exit_code(const Status& status) { return status.ok() ? 0 : fail(status.message()); }

}  // namespace pagoda
