#pragma once
// vLLM's routes that change which adapters requests can choose while the server runs: POST
// /v1/load_lora_adapter and /v1/unload_lora_adapter, for administrators, where
// --allow-runtime-lora-updating permits it. Adapters load on a thread of their own; requests that hold one
// that goes keep it until they end. Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> adapter_routes();

}  // namespace pagoda
