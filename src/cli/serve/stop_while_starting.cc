#include "cli/serve/stop_while_starting.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

#include "base/log.h"

namespace pagoda {
namespace {

// Called in a signal handler: async-signal-safe calls only.
void end(bool says_so) {
  constexpr std::string_view kLine = "\npagoda: stopped while starting\n";
  if (says_so) [[maybe_unused]]
    const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
  ::_exit(0);
}

void end_with_a_line(int) { end(true); }
void end_silently(int) { end(false); }  // a JSON log may not contain other lines

}  // namespace

void stop_while_starting() {
  struct sigaction action{};
  action.sa_handler = log_format() == LogFormat::json ? end_silently : end_with_a_line;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

}  // namespace pagoda
