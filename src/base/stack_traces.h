#pragma once
// The stacks of all threads of this process, for a log before it ends. Exported functions have names; other
// addresses are "program(+offset)", for addr2line. Takes a signal (SIGRTMIN + 7) on first use. Threads: any,
// one at a time; a thread that does not respond to signals is named.
#include <string>
#include <vector>

namespace pagoda {

// One text for each thread, of several lines; the caller's first.
std::vector<std::string> stack_traces();

}  // namespace pagoda
