#pragma once
// Rights that a server keeps once it has its flags (base/sandbox.h): read its model, keys, certificates and
// the system's libraries; write its caches, stores, logs and sockets. Threads: before any exists.
#include <string>

#include "base/sandbox.h"
#include "cli/flags/engine_flags.h"

namespace pagoda {

SandboxRules sandbox_of(const EngineFlags& flags);

// Enters it unless --no-sandbox. What it forbids, in words.
Result<std::string> enter_serve_sandbox(const EngineFlags& flags);

}  // namespace pagoda
