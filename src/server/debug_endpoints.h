#pragma once
// GET /debug/kv and GET /debug/requests/{id}: a snapshot of the engine as JSON. They wait for the engine's
// step to end, so they belong on a worker thread.
// Threads: any.
#include <string_view>

#include "server/http_response.h"
#include "server/routes.h"
#include "server/server_context.h"

namespace pagoda {

// `rest`: the id, as the client knows it ("cmpl-…") or the engine's number from /debug/kv.
HttpResponse answer_debug(const Route& route, std::string_view rest, const ServerContext& server);

}  // namespace pagoda
