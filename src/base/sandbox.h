#pragma once
// Sandbox: gives up what this process will not need any more, for good: files beyond those it names
// (Landlock), TCP connections that it would begin itself (Landlock), and system calls with which a program is
// started, another one looked into, or the machine changed (seccomp). Whoever finds a way to run code in here
// can do little with it. Children inherit it, and so do threads: call it before any thread exists.
// What is open stays open; stat() and Unix sockets are not covered. Where the kernel lacks a part, that part
// is left out, and told. Not against the operator: it is no container.
// Source: Linux's landlock(7) and seccomp(2). Threads: one, the first.
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

struct SandboxRules {
  // Files, or folders with all that is below them. What does not exist is left out.
  std::vector<std::string> readable;
  std::vector<std::string> writable;  // and readable: files there may be made, changed and removed
  bool may_connect = false;
};

struct Sandbox {
  bool files = false, connections = false, calls = false;  // rights that are in force
  std::string describe() const;                            // a line for the log
};

// internal_error: the kernel has it, and refused what it should not.
Result<Sandbox> enter_sandbox(const SandboxRules& rules);

}  // namespace pagoda
