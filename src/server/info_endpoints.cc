#include "server/info_endpoints.h"

#include <algorithm>

#include "api/json.h"
#include "base/ascii.h"
#include "base/strings.h"
#include "server/body_schemas.h"
#include "server/server_context.h"

namespace pagoda {
namespace {

HttpResponse answer(std::string body, std::string content_type = "application/json") {
  HttpResponse response;
  response.content_type = std::move(content_type);
  response.body = std::move(body);
  return response;
}

HttpResponse server_info(const ApiCall&, ServerContext& server) {
  const ApiContext& api = server.api;
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("model_path").string(to_valid_utf8(api.model_root));
  json.key("served_model_name").string(api.model_names.front());
  json.key("tokenizer_path").string(to_valid_utf8(api.model_root));
  json.key("context_length").integer(api.max_model_len).key("max_running_requests").integer(api.max_num_seqs);
  json.key("tp_size")
      .integer(1)
      .key("dp_size")
      .integer(static_cast<std::int64_t>(server.engine.num_engines()))
      .key("is_embedding")
      .boolean(false);
  json.key("version").string(api.version).end_object();
  return answer(std::move(out));
}

HttpResponse model_info(const ApiCall&, ServerContext& server) {
  const ApiContext& api = server.api;
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("model_path").string(to_valid_utf8(api.model_root));
  json.key("tokenizer_path").string(to_valid_utf8(api.model_root)).key("is_generation").boolean(true);
  json.key("preferred_sampling_params").null().key("model_type").string(api.facts.architecture);
  json.key("has_image_understanding").boolean(false).key("has_audio_understanding").boolean(false);
  json.end_object();
  return answer(std::move(out));
}

// llama.cpp's slots, emulated: each running call is shown as a busy slot, plus one idle slot.
HttpResponse slots(const ApiCall&, ServerContext& server) {
  constexpr std::int64_t kMaxShown = 1024;
  const std::int64_t busy = std::min(server.num_generating.load(), kMaxShown);
  std::string out;
  JsonWriter json(out);
  json.begin_array();
  for (std::int64_t i = 0; i <= busy; ++i) {
    json.begin_object().key("id").integer(i).key("n_ctx").integer(server.api.max_model_len);
    json.key("is_processing").boolean(i < busy).end_object();
  }
  json.end_array();
  return answer(std::move(out));
}

std::string_view media_type(AnswerForm form) {
  switch (form) {
    case AnswerForm::sse:
      return "text/event-stream";
    case AnswerForm::ndjson:
      return "application/x-ndjson";
    case AnswerForm::text:
      return "text/plain";
    case AnswerForm::file:
      return "application/octet-stream";
    case AnswerForm::json:
      break;
  }
  return "application/json";
}

std::string_view owner_name(const Route& route) {
  return route.protocol == nullptr ? std::string_view("server") : route.protocol->name;
}

void write_operation(JsonWriter& json, const Route& route, bool keys) {
  std::string method;
  for (const char c : route.facts.method) method.push_back(lower(c));
  json.key(method).begin_object().key("tags").begin_array().string(owner_name(route)).end_array();
  json.key("operationId").string(concat(method, " ", route.facts.path));
  if (const std::size_t brace = route.facts.path.rfind('{'); brace != std::string_view::npos) {
    json.key("parameters").begin_array().begin_object();
    json.key("name").string(route.facts.path.substr(brace + 1, route.facts.path.size() - brace - 2));
    json.key("in").string("path").key("required").boolean(true).key("schema").begin_object();
    json.key("type").string("string").end_object().end_object().end_array();
  }
  if (route.facts.body == BodyForm::json) {
    json.key("requestBody").begin_object().key("required").boolean(true).key("content").begin_object();
    json.key("application/json").begin_object().key("schema");
    json.raw(body_schema(route.facts.path)).end_object().end_object().end_object();
  }
  json.key("responses").begin_object().key("200").begin_object().key("description").string("OK");
  json.key("content").begin_object();
  const bool generation = std::holds_alternative<GenerationHandler>(route.handler);
  if (generation && route.facts.form != AnswerForm::json)
    json.key("application/json").begin_object().end_object();
  json.key(media_type(route.facts.form)).begin_object().end_object();
  json.end_object().end_object().end_object();
  if (keys && route.facts.role != Role::anyone)
    json.key("security")
        .begin_array()
        .begin_object()
        .key("key")
        .begin_array()
        .end_array()
        .end_object()
        .end_array();
  json.end_object();
}

HttpResponse openapi(const ApiCall&, ServerContext& server) {
  const bool keys = server.keys.required();
  std::string out;
  JsonWriter json(out);
  json.begin_object().key("openapi").string("3.1.0").key("info").begin_object().key("title").string("Pagoda");
  json.key("version").string(server.api.version).end_object();
  if (const std::string& root = server.config.root_path; !root.empty())
    json.key("servers").begin_array().begin_object().key("url").string(root).end_object().end_array();
  json.key("paths").begin_object();
  server.routes.for_each_path([&](std::string_view path, const std::vector<Route>& routes) {
    json.key(path).begin_object();
    for (const Route& route : routes) write_operation(json, route, keys);
    json.end_object();
  });
  json.end_object().key("components").begin_object().key("securitySchemes").begin_object();
  json.key("key").begin_object().key("type").string("http").key("scheme").string("bearer").end_object();
  json.end_object().end_object().end_object();
  return answer(std::move(out));
}

HttpResponse docs(const ApiCall&, ServerContext& server) {
  std::string out =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Pagoda</title><style>"
      "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
      "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .75rem;"
      "border-bottom:1px solid #ccc}code{font-family:ui-monospace,monospace}</style></head><body>"
      "<h1>Pagoda</h1><p>The routes of this server; <a href=\"openapi.json\">openapi.json</a> has them for "
      "programs.</p><table><tr><th>Method</th><th>Path</th><th>Protocol</th><th>Answer</th></tr>";
  server.routes.for_each_path([&out](std::string_view path, const std::vector<Route>& routes) {
    for (const Route& route : routes)
      out.append(concat("<tr><td>", route.facts.method, "</td><td><code>", path, "</code></td><td>",
                        owner_name(route), "</td><td>", media_type(route.facts.form), "</td></tr>"));
  });
  out.append("</table></body></html>\n");
  return answer(std::move(out), "text/html; charset=utf-8");
}

HttpResponse slot_action(const ApiCall&, ServerContext&) {
  return error_response(unimplemented(
      "Slots cannot be saved, restored or erased: the prefix cache keeps the K/V of all requests, "
      "also on disk (--kv-disk); DELETE /admin/sessions/ID erases those of a session."));
}

constexpr Route kInfoRoutes[] = {
    {{.method = "GET", .path = "/get_server_info"}, server_info},
    {{.method = "GET", .path = "/server_info"}, server_info},
    {{.method = "GET", .path = "/get_model_info"}, model_info},
    {{.method = "GET", .path = "/model_info"}, model_info},
    {{.method = "GET", .path = "/slots"}, slots},
    {{.method = "POST", .path = "/slots/{id}", .body = BodyForm::any}, slot_action},
    {{.method = "GET", .path = "/openapi.json"}, openapi},
    {{.method = "GET", .path = "/docs", .form = AnswerForm::text}, docs},
};

}  // namespace

std::span<const Route> info_routes() { return kInfoRoutes; }

}  // namespace pagoda
