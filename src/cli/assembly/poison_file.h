#pragma once
// Names the file in which `serve` keeps the requests that an engine died of (engine/poison_record.h): a file
// for each port, since a server that is started again has the same one.
#include <memory>
#include <string>

#include "cli/flags/engine_flags.h"
#include "engine/poison_record.h"

namespace pagoda {

std::string default_poison_file(std::int32_t port);

// Null: not wanted, or not available, which is only logged.
std::unique_ptr<PoisonRecord> poison_record(const EngineFlags& flags);

}  // namespace pagoda
