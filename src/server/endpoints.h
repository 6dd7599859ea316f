#pragma once
// The answers that need neither engine nor socket: checks before a body is read, and the small endpoints.
// Threads: any.
#include <optional>
#include <string>
#include <string_view>

#include "server/http_request.h"
#include "server/http_response.h"
#include "server/routes.h"
#include "server/server_context.h"

namespace pagoda {

// A refusal that can be told from the head alone: Host, key, path, method, media type, size, drain; or the
// answer to OPTIONS. nullopt: go on and read the body.
std::optional<HttpResponse> answer_from_head(const HttpRequest& request, const Route& route,
                                             ServerContext& server);

// health, ping, version, metrics, load, models, model. `rest` as from find_route.
HttpResponse answer_small(const Route& route, std::string_view rest, ServerContext& server);

// tokenize and detokenize; off the I/O threads.
HttpResponse answer_text(const Route& route, std::string_view body, const ServerContext& server);

HttpResponse answer_error(const Status& status);

// X-Request-Id as the client sent it when it is fit to be echoed, else a new one.
std::string request_id_for(const HttpRequest& request);

}  // namespace pagoda
