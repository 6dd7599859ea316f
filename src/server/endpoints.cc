#include "server/endpoints.h"

#include <openssl/rand.h>

#include <algorithm>

#include "api/errors.h"
#include "api/openai/text_endpoints.h"
#include "base/strings.h"

namespace pagoda {
namespace {

HttpResponse with_header(HttpResponse response, std::string name, std::string value) {
  response.headers.emplace_back(std::move(name), std::move(value));
  return response;
}

bool is_json(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  std::string name;
  for (const char c : type)
    if (c != ' ' && c != '\t') name.push_back(lower(c));
  return name == "application/json";
}

constexpr std::string_view kCorsHeaders = "authorization, content-type, x-request-id";
constexpr std::size_t kMaxCorsHeaders = 1024;

// What a preflight says may be sent: all that an allowed page asks for, since clients have headers of their
// own (OpenAI's: x-stainless-*), and none has a meaning here that a page could not use anyway.
std::string cors_headers(const HttpRequest& request, const ServerConfig& config) {
  const std::string_view asked = request.header("access-control-request-headers");
  const auto fit = [](char c) { return is_token_char(c) || c == ',' || c == ' '; };
  const bool echo = !asked.empty() && asked.size() <= kMaxCorsHeaders && std::ranges::all_of(asked, fit) &&
                    !allowed_origin(request.header("origin"), config.allowed_origins).empty();
  return std::string(echo ? asked : kCorsHeaders);
}

HttpResponse answer_options(const HttpRequest& request, const Route& route, const ServerConfig& config) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  const std::string allow(route.allow.empty() ? "GET, HEAD, POST, OPTIONS" : route.allow);
  response.headers.emplace_back("allow", allow);
  if (!request.header("access-control-request-method").empty()) {
    response.headers.emplace_back("access-control-allow-methods", allow);
    response.headers.emplace_back("access-control-allow-headers", cors_headers(request, config));
    response.headers.emplace_back("access-control-max-age", "600");
  }
  return response;
}

}  // namespace

HttpResponse answer_error(const Status& status) {
  HttpResponse response;
  response.status = http_status(status);
  response.body = error_body(status);
  if (response.status == 429 || response.status == 503) response.headers.emplace_back("retry-after", "1");
  return response;
}

std::optional<HttpResponse> answer_from_head(const HttpRequest& request, const Route& route,
                                             ServerContext& server) {
  if (!server.hosts.accepts(request.header("host")))
    return error_response(403, "This Host name is not served here; see --allowed-hosts.", "host_not_allowed");
  if (request.method == "OPTIONS") return answer_options(request, route, server.config);

  const bool open = route.open || (route.endpoint == Endpoint::metrics && server.config.metrics_without_key);
  if (!open && !server.keys.accepts(request.header("authorization")))
    return with_header(
        error_response(401, "A valid API key is needed: Authorization: Bearer KEY.", "invalid_api_key"),
        "www-authenticate", "Bearer");
  if (route.endpoint == Endpoint::none)
    return error_response(404, "There is nothing at this path.", "not_found");
  if (!route.allows(request.method))
    return with_header(
        error_response(405, concat("This path allows ", route.allow, "."), "method_not_allowed"), "allow",
        std::string(route.allow));
  if (request.content_length.value_or(0) > server.config.max_body_bytes)
    return error_response(
        413, concat("The request body may have at most ", server.config.max_body_bytes, " bytes."),
        "body_too_large");
  if (request.method != "POST" || route.endpoint == Endpoint::ping) return std::nullopt;
  if (server.draining.load()) return answer_error(unavailable("The server is shutting down."));
  if (!is_json(request.header("content-type")))
    return error_response(415, "The request body must be sent as Content-Type: application/json.",
                          "unsupported_media_type");
  return std::nullopt;
}

HttpResponse answer_small(const Route& route, std::string_view rest, ServerContext& server) {
  HttpResponse response;
  switch (route.endpoint) {
    case Endpoint::health:
      if (!server.engine.healthy()) return answer_error(unavailable("The engine has stopped."));
      if (server.draining.load()) return answer_error(unavailable("The server is shutting down."));
      response.body = R"({"status":"ok"})";
      break;
    case Endpoint::ping:
      if (!server.engine.healthy()) return answer_error(unavailable("The engine has stopped."));
      response.body = "{}";
      break;
    case Endpoint::version:
      response.body = version_body(server.api);
      break;
    case Endpoint::load:
      response.body = concat("{\"server_load\":", server.num_generating.load(), "}");
      break;
    case Endpoint::metrics:
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = server.metrics.expose(server.config.metrics_prefix, server.api.model_names.front());
      break;
    case Endpoint::models:
      response.body = models_body(server.api);
      break;
    case Endpoint::model: {
      const std::optional<std::string> name = percent_decode(rest);
      if (!name) return error_response(400, "The model name in the path is malformed.");
      Result<std::string> body = model_body(*name, server.api);
      if (!body) return answer_error(body.error());
      response.body = std::move(*body);
      break;
    }
    default:
      return error_response(404, "There is nothing at this path.", "not_found");
  }
  return response;
}

HttpResponse answer_text(const Route& route, std::string_view body, const ServerContext& server) {
  Result<std::string> answer = route.endpoint == Endpoint::tokenize ? tokenize_body(body, server.api)
                                                                    : detokenize_body(body, server.api);
  if (!answer) return answer_error(answer.error());
  HttpResponse response;
  response.body = std::move(*answer);
  return response;
}

std::string request_id_for(const HttpRequest& request) {
  const std::string_view given = request.header("x-request-id");
  const bool fit = !given.empty() && given.size() <= 128 &&
                   std::all_of(given.begin(), given.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (fit) return std::string(given);
  unsigned char bytes[16];
  CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  for (const unsigned char byte : bytes) id.append({kHex[byte >> 4], kHex[byte & 15]});
  return id;
}

}  // namespace pagoda
