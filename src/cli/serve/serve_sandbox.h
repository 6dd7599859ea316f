#pragma once
// The rights that a server keeps after it has read its flags (base/sandbox.h): read its model, keys,
// certificates and the system's libraries; write its caches, stores, logs and sockets. Threads: call before
// any thread exists.
#include <string>

#include "base/sandbox.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

SandboxRules sandbox_of(const EngineFlags& flags);

// Enters the sandbox unless --no-sandbox is given. Returns a description of what is forbidden.
Result<std::string> enter_serve_sandbox(const EngineFlags& flags);

}  // namespace pagoda
