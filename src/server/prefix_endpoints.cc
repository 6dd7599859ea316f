#include "server/prefix_endpoints.h"

#include "api/json.h"
#include "server/endpoints.h"

namespace pagoda {
namespace {

void write(JsonWriter& json, const PrefixInfo& prefix) {
  json.begin_object().key("object").string("prefix");
  json.key("name").string(to_valid_utf8(prefix.name));
  json.key("num_tokens").integer(prefix.num_tokens);
  json.key("num_blocks").integer(prefix.num_blocks);
  json.end_object();
}

}  // namespace

void PrefixSink::on_output(RequestOutput output) {
  if (!output.finished) return;
  status_ = std::move(output.error);
  done_.store(true, std::memory_order_release);
  if (wake_) wake_();
}

HttpResponse list_prefixes(const ServerContext& server) {
  HttpResponse response;
  JsonWriter json(response.body);
  json.begin_object().key("object").string("list").key("data").begin_array();
  for (const PrefixInfo& prefix : server.engine.list_prefixes()) write(json, prefix);
  json.end_array().end_object();
  return response;
}

HttpResponse drop_prefix(std::string_view rest, const ServerContext& server) {
  const std::optional<std::string> name = percent_decode(rest);
  if (!name) return error_response(400, "The name in the path is malformed.");
  if (Status status = server.engine.drop_prefix(*name); !status.ok())
    return answer_error(std::move(status).with_param("name"));
  HttpResponse response;
  JsonWriter json(response.body);
  json.begin_object().key("object").string("prefix.deleted");
  json.key("name").string(to_valid_utf8(*name)).key("deleted").boolean(true).end_object();
  return response;
}

HttpResponse prefix_added(const PrefixSpec& prefix, Status status, const ServerContext& server) {
  if (!status.ok()) return answer_error(rename_param(std::move(status), prefix));
  PrefixInfo info{.name = prefix.name, .num_tokens = static_cast<std::int32_t>(prefix.token_ids.size())};
  for (PrefixInfo& known : server.engine.list_prefixes())
    if (known.name == prefix.name) info = std::move(known);
  HttpResponse response;
  JsonWriter json(response.body);
  write(json, info);
  return response;
}

}  // namespace pagoda
