#pragma once
// The stacks of all threads of this process, for the log before the process ends. Exported functions appear
// by name; other addresses as "program(+offset)", for addr2line. Claims a signal (SIGRTMIN + 7) on first use.
// A thread that does not respond to the signal is named. Threads: any, one at a time.
#include <string>
#include <vector>

namespace pagoda {

// One multi-line text per thread, the caller's first.
std::vector<std::string> stack_traces();

}  // namespace pagoda
