#pragma once
// The answers that need neither engine nor socket: checks before a body is read, and the small endpoints.
// Threads: any.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/http_request.h"
#include "server/http_response.h"
#include "server/routes.h"
#include "server/server_context.h"

namespace pagoda {

// The refusal that follows from the request head alone (Host, key, path, method, media type, size, drain), or
// the answer to OPTIONS. nullopt: continue with the body.
// `key`: the client's API key; null: none or unknown.
std::optional<HttpResponse> answer_from_head(const HttpRequest& request, const RouteTable::Match& match,
                                             const ApiKey* key, ServerContext& server);

// 429 with OpenAI's message and headers.
HttpResponse rate_limit_response(const RateLimit::Refusal& refusal, const Protocol* protocol);

// The largest body that is read for a request.
std::size_t max_body_bytes(const RouteTable::Match& match, const ServerConfig& config);

// health, ping, load, metrics, usage.
std::span<const Route> small_routes();

// The client's X-Request-Id if it is valid, otherwise a new one.
std::string request_id_for(const HttpRequest& request);

}  // namespace pagoda
