#pragma once
// Answers that need neither engine nor socket: the checks before a body is read, and small endpoints.
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

// Checks the request's head (Host, key, path, method, media type, size, drain). Returns the refusal, or the
// answer to OPTIONS; nullopt to continue with the body.
// `key`: the client's API key; null if there is none or it is unknown.
std::optional<HttpResponse> answer_from_head(const HttpRequest& request, const RouteTable::Match& match,
                                             const ApiKey* key, ServerContext& server);

// 429 with OpenAI's message and headers.
HttpResponse rate_limit_response(const RateLimit::Refusal& refusal, const Protocol* protocol);

// The maximum size of the request's body.
std::size_t max_body_bytes(const RouteTable::Match& match, const ServerConfig& config);

// health, ping, load, metrics, usage.
std::span<const Route> small_routes();

// The client's X-Request-Id if valid; otherwise a new id.
std::string request_id_for(const HttpRequest& request);

}  // namespace pagoda
