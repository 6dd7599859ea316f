#pragma once
// Where all threads of this process stand, for a log before it ends. Names are known of what the program
// exports; addresses of the rest are "program(+offset)", for addr2line. Takes a signal (SIGRTMIN + 7) on
// first use. Threads: any, one at a time; a thread that answers no signal is said to.
#include <string>
#include <vector>

namespace pagoda {

// One text for each thread, of several lines; the caller's first.
std::vector<std::string> stack_traces();

}  // namespace pagoda
