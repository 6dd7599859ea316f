#include "cli/exit_code.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.h"
#include "base/strings.h"

namespace pagoda {

int fail(std::string_view message) {
  if (log_format() == LogFormat::json) {
    log_error("pagoda", message);
    return kExitUsage;
  }
  std::string line = concat("pagoda: ", message);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  line.push_back('\n');
  std::fputs(line.c_str(), stderr);
  return kExitUsage;
}

std::string file_failure(std::string_view verb, std::string_view path) {
  const int reason = errno;
  return concat("cannot ", verb, " ", path, reason == 0 ? "" : concat(": ", std::strerror(reason)));
}

int flush_output() { return std::fflush(stdout) == 0 ? 0 : fail("cannot write to standard output"); }

int exit_code(const Status& status) { return status.ok() ? 0 : fail(status.message()); }

}  // namespace pagoda
