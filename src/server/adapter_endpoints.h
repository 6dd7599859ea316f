#pragma once
// vLLM's routes that load and unload adapters while the server runs: POST /v1/load_lora_adapter and
// /v1/unload_lora_adapter, for administrators, if --allow-runtime-lora-updating is set. Adapters load on a
// separate thread; requests that use an unloaded adapter keep it until they end. Threads: any.
#include <span>

#include "server/routes.h"

namespace pagoda {

std::span<const Route> adapter_routes();

}  // namespace pagoda
