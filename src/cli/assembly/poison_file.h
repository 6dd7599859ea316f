#pragma once
// The file in which `serve` keeps the requests that crashed an engine (engine/poison_record.h). One file per
// port, so that a restarted server finds its own file.
#include <memory>
#include <string>

#include "cli/flags/engine_flags.h"
#include "engine/poison_record.h"

namespace pagoda {

std::string default_poison_file(std::int32_t port);

// Null if disabled, or if the file cannot be used, which is only logged.
std::unique_ptr<PoisonRecord> poison_record(const EngineFlags& flags);

}  // namespace pagoda
