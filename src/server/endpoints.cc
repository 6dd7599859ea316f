#include "server/endpoints.h"

#include <openssl/rand.h>

#include <algorithm>
#include <cmath>

#include "api/json.h"
#include "base/ascii.h"
#include "base/strings.h"
#include "server/absent_paths.h"

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

// True if the request comes from a browser. Pages of other sites can make a browser post forms and plain text
// here, but cannot remove these headers.
bool from_browser(const HttpRequest& request) {
  return !request.header("origin").empty() || !request.header("sec-fetch-site").empty() ||
         !request.header("referer").empty();
}

constexpr std::string_view kCorsHeaders = "authorization, content-type, x-request-id";
constexpr std::size_t kMaxCorsHeaders = 1024;

// The headers that a preflight allows. An allowed origin may send any headers: clients have their own
// (OpenAI's: x-stainless-*), and none gives a page more rights.
std::string cors_headers(const HttpRequest& request, const ServerConfig& config) {
  const std::string_view asked = request.header("access-control-request-headers");
  const auto fit = [](char c) { return is_token_char(c) || c == ',' || c == ' '; };
  const bool echo = !asked.empty() && asked.size() <= kMaxCorsHeaders && std::ranges::all_of(asked, fit) &&
                    !allowed_origin(request.header("origin"), config.allowed_origins).empty();
  return std::string(echo ? asked : kCorsHeaders);
}

HttpResponse answer_options(const HttpRequest& request, std::string_view allowed,
                            const ServerConfig& config) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  const std::string allow(allowed.empty() ? "GET, HEAD, POST, OPTIONS" : allowed);
  response.headers.emplace_back("allow", allow);
  if (!request.header("access-control-request-method").empty()) {
    response.headers.emplace_back("access-control-allow-methods", allow);
    response.headers.emplace_back("access-control-allow-headers", cors_headers(request, config));
    response.headers.emplace_back("access-control-max-age", "600");
  }
  return response;
}

HttpResponse json_response(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse health(const ApiCall&, ServerContext& server) {
  if (Status status = server.engine.check_health(); !status.ok()) return error_response(status);
  if (server.draining.load()) return error_response(unavailable("The server is shutting down."));
  return json_response(R"({"status":"ok"})");
}

HttpResponse ping(const ApiCall&, ServerContext& server) {
  if (!server.engine.healthy()) return error_response(unavailable("The engine has stopped."));
  return json_response("{}");
}

HttpResponse load(const ApiCall&, ServerContext& server) {
  return json_response(concat("{\"server_load\":", server.num_generating.load(), "}"));
}

HttpResponse metrics(const ApiCall&, ServerContext& server) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = server.metrics.expose(server.config.metrics_prefix, server.api.model_names.front());
  return response;
}

bool is_open(Role role, const ServerContext& server) {
  return role == Role::anyone || (role == Role::metrics && server.config.metrics_without_key);
}

// Usage of every key since startup.
HttpResponse usage(const ApiCall&, ServerContext& server) {
  std::string body;
  JsonWriter json(body);
  json.begin_object();
  for (const std::shared_ptr<const KeyAccount>& account : server.keys.accounts()) {
    const KeyUsage::Totals totals = account->usage.totals();
    json.key(account->name).begin_object();
    json.key("prompt_tokens").integer(totals.tokens.prompt);
    json.key("cached_tokens").integer(totals.tokens.cached);
    json.key("completion_tokens").integer(totals.tokens.completion);
    json.key("requests").integer(totals.requests);
    json.key("errors").integer(totals.errors);
    json.end_object();
  }
  json.end_object();
  return json_response(std::move(body));
}

constexpr Route kSmallRoutes[] = {
    {{.method = "GET", .path = "/health", .role = Role::anyone}, health},
    {{.method = "GET", .path = "/ping"}, ping},
    {{.method = "POST", .path = "/ping", .body = BodyForm::any}, ping},
    {{.method = "GET", .path = "/load"}, load},
    {{.method = "GET", .path = "/metrics", .role = Role::metrics, .form = AnswerForm::text}, metrics},
    {{.method = "GET", .path = "/admin/usage", .role = Role::admin}, usage},
};

// OpenAI's message. The path is included only if it is short and printable.
std::string invalid_url(const HttpRequest& request) {
  constexpr std::size_t kMaxShownPath = 100;
  const std::string_view instead = instead_of(request.path);
  const bool shown = request.path.size() <= kMaxShownPath &&
                     std::ranges::all_of(request.path, [](char c) { return c > ' ' && c < 0x7f; });
  return concat(
      "Invalid URL (", request.method, shown ? " " : "", shown ? request.path : "", "). ", instead,
      instead.empty() ? "/openapi.json lists the routes; those of OpenAI's API begin with /v1/." : "");
}

}  // namespace

std::span<const Route> small_routes() { return kSmallRoutes; }

std::size_t max_body_bytes(const RouteTable::Match& match, const ServerConfig& config) {
  const std::size_t of_route = match.route == nullptr ? kServerBodyLimit : match.route->facts.max_body_bytes;
  return std::min(of_route, config.max_body_bytes);
}

std::optional<HttpResponse> answer_from_head(const HttpRequest& request, const RouteTable::Match& match,
                                             const ApiKey* key, ServerContext& server) {
  const auto refuse = [&match](int status, std::string message, std::string code) {
    return error_response({.status = status, .message = std::move(message), .code = std::move(code)},
                          match.protocol);
  };
  if (!server.hosts.accepts(request.header("host")))
    return refuse(403, "This Host header is not accepted; see --allowed-hosts.", "host_not_allowed");
  if (request.method == "OPTIONS") return answer_options(request, match.allow, server.config);
  if (!is_open(match.role, server)) {
    if (key == nullptr)
      return with_header(
          refuse(401, "A valid API key is required: Authorization: Bearer KEY.", "invalid_api_key"),
          "www-authenticate", "Bearer");
    if (!may_use(key->entry.role, match.role))
      return refuse(403, concat("This route needs an API key with the role ", name_of(match.role), "."),
                    "insufficient_permissions");
  }
  if (match.allow.empty()) return refuse(404, invalid_url(request), "not_found");
  if (match.route == nullptr)
    return with_header(refuse(405,
                              concat(request.method, " is not allowed here; allowed: ", match.allow, ".",
                                     instead_of(request.path).empty() ? "" : " ", instead_of(request.path)),
                              "method_not_allowed"),
                       "allow", std::string(match.allow));
  if (const std::size_t limit = max_body_bytes(match, server.config);
      request.content_length.value_or(0) > limit)
    return refuse(413, concat("The request body is larger than ", limit, " bytes."), "body_too_large");
  // Pages of other sites could post this without a preflight.
  if (match.route->facts.role == Role::admin && request.method == "POST" &&
      match.route->facts.body != BodyForm::json && from_browser(request))
    return refuse(403, "Browsers are not allowed to call this route.", "insufficient_permissions");
  const bool begins_something = match.route->facts.body == BodyForm::json ||
                                std::holds_alternative<StreamHandler>(match.route->handler);
  if (begins_something && server.draining.load())
    return error_response(unavailable("The server is shutting down."), match.protocol);
  if (match.route->facts.body != BodyForm::json) return std::nullopt;
  if (const std::string_view coding = request.header("content-encoding");
      !coding.empty() && lowered(coding) != "identity")
    return refuse(415, "The request body must be sent without a Content-Encoding.", "unsupported_media_type");
  if (!is_json(request.header("content-type")) && from_browser(request))
    return refuse(415, "A browser must send the request body as Content-Type: application/json.",
                  "unsupported_media_type");
  return std::nullopt;
}

HttpResponse rate_limit_response(const RateLimit::Refusal& refusal, const Protocol* protocol) {
  HttpResponse response =
      error_response({.status = 429, .message = refusal.message, .code = "rate_limit_exceeded"}, protocol);
  std::erase_if(response.headers, [](const auto& header) { return header.first == "retry-after"; });
  if (refusal.wait_s > 0)
    response.headers.emplace_back("retry-after",
                                  std::to_string(static_cast<std::int64_t>(std::ceil(refusal.wait_s))));
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
