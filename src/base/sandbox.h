#pragma once
// Sandbox: permanently gives up rights that this process no longer needs: files other than those listed
// (Landlock), outgoing TCP connections (Landlock), and system calls that start programs, inspect other
// processes or change the machine (seccomp). An attacker who runs code in this process can do little with it.
// Threads and child processes inherit the restrictions: enter the sandbox before starting any thread.
// Open files stay open; stat() and Unix sockets are not restricted. A part that the kernel does not support
// is skipped and reported. Not a defence against the operator, and not a container.
// Source: Linux's landlock(7) and seccomp(2). Threads: the main thread only.
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

struct SandboxRules {
  // Files, or folders with everything below them. Paths that do not exist are skipped.
  std::vector<std::string> readable;
  std::vector<std::string> writable;  // also readable; files in it may be created, changed and removed
  bool may_connect = false;
};

struct Sandbox {
  bool files = false, connections = false, calls = false;  // the restrictions in force
  std::string describe() const;                            // one line for the log
};

// internal_error if the kernel supports a restriction but fails to apply it.
Result<Sandbox> enter_sandbox(const SandboxRules& rules);

}  // namespace pagoda
