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

// A refusal that can be told from the head alone: Host, key, path, method, media type, size, drain; or the
// answer to OPTIONS. nullopt: go on and read the body.
std::optional<HttpResponse> answer_from_head(const HttpRequest& request, const RouteTable::Match& match,
                                             ServerContext& server);

// The largest body that is read for a request.
std::size_t max_body_bytes(const RouteTable::Match& match, const ServerConfig& config);

// health, ping, load, metrics.
std::span<const Route> small_routes();

// X-Request-Id as the client sent it when it is fit to be echoed, else a new one.
std::string request_id_for(const HttpRequest& request);

// Whose call it is, where keys tell clients apart; empty where there are none.
std::string owner_of(const HttpRequest& request, const ServerContext& server);

}  // namespace pagoda
