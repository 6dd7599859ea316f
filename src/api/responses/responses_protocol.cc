#include "api/responses/responses_protocol.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>

#include "api/answer_store.h"
#include "api/error_body.h"
#include "api/query.h"
#include "api/responses/input_items.h"
#include "api/responses/response_writer.h"
#include "api/responses/responses_parser.h"
#include "api/responses/stored_response.h"
#include "base/ends.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// This protocol's field "input" corresponds to "messages" in a Conversation.
Status in_its_words(const Status& error) {
  const std::string_view param = error.param();
  if (!param.starts_with("messages")) return error;
  Status named = error;
  return std::move(named).with_param(concat("input", param.substr(std::string_view("messages").size())));
}

// Estimated size of an answer's events: an event repeats the request's fields, or has a token with names
// around it. At most a sixteenth of the store: the log keeps no more of longer streams.
std::size_t log_bytes(const ApiCall& call, const Request& request, const AnswerStore& store) {
  constexpr std::size_t kFew = 65536, kToken = 400;
  const auto tokens = static_cast<std::size_t>(request.sampling.max_tokens);
  return std::min(kFew + 4 * call.body.size() + kToken * tokens, store.max_bytes() / 16);
}

Result<ApiGeneration> create(const ApiCall& call, const ApiContext& context) {
  Result<ResponsesCall> parsed = parse_responses_call(call.body, call.owner, context);
  if (!parsed) return parsed.error();
  Result<ChatRequest> made = make_chat_request(parsed->chat, context);
  if (!made) return in_its_words(made.error());
  ApiGeneration out;
  out.id = concat("resp_", call.id);
  out.grammars = std::move(made->grammars);
  out.warnings = std::move(parsed->chat.warnings);
  const bool background = parsed->background;
  std::string conversation;
  if (background)
    conversation = to_text({.items = parsed->conversation, .first_of_call = parsed->first_of_this_call});
  std::shared_ptr<AnswerLog> log;
  if (background && parsed->stream)
    log = std::make_shared<AnswerLog>(log_bytes(call, made->request, *context.answers));
  auto writer = std::make_unique<ResponseWriter>(out.id, call.created, call.owner, *std::move(parsed),
                                                 background, log, context);
  if (background) {
    out.at_once = writer->response_json();
    if (!context.answers->add(out.id, {.owner = call.owner,
                                       .answer = *out.at_once,
                                       .conversation = std::move(conversation),
                                       .running = true,
                                       .log = log}))
      return resource_exhausted("The response store has no space for another running response.")
          .with_reason("answer_store_full");
    out.follow = log;
  }
  out.requests.push_back(std::move(made->request));
  out.answer = std::move(writer);
  return out;
}

Result<ApiAnswer> input_tokens(const ApiCall& call, const ApiContext& context) {
  Result<ResponsesCall> parsed = parse_responses_call(call.body, call.owner, context);
  if (!parsed) return parsed.error();
  const Result<std::vector<TokenId>> ids =
      chat_prompt_tokens(std::move(parsed->chat.conversation), context, parsed->chat.prompt_options);
  if (!ids) return in_its_words(ids.error());
  return ApiAnswer(concat(R"({"object":"response.input_tokens","input_tokens":)", ids->size(), "}"));
}

Status no_such(std::string_view id) {
  if (id == "compact")
    return not_found(
        "Conversations are not compacted here; 'truncation': 'auto' leaves out the oldest messages.");
  return not_found(concat("Response with id '", to_valid_utf8(id), "' not found.")).with_param("response_id");
}

Result<StoredAnswer> stored(std::string_view id, const ApiCall& call, const ApiContext& context) {
  std::optional<StoredAnswer> found =
      context.answers == nullptr ? std::nullopt : context.answers->find(id, call.owner);
  if (!found) return no_such(id);
  return *std::move(found);
}

std::string items_list(const StoredAnswer& answer, std::string_view id) {
  StoredConversation conversation = conversation_of(answer);
  json::array items(conversation.items.begin() + static_cast<std::ptrdiff_t>(conversation.first_of_call),
                    conversation.items.end());
  items = shown_items(items, id);
  std::reverse(items.begin(), items.end());  // newest first, the default order
  json::object list{{"object", "list"}, {"has_more", false}};
  const json::value *first = first_of(items), *last = last_of(items);
  list["first_id"] = first == nullptr ? json::value("") : first->at("id");
  list["last_id"] = last == nullptr ? json::value("") : last->at("id");
  list["data"] = std::move(items);
  return json::serialize(list);
}

// ?stream=true&starting_after=7: streams the events after number 7.
Result<ApiAnswer> followed(const StoredAnswer& answer, const ApiCall& call) {
  if (answer.log == nullptr)
    return invalid_argument(
               "This response was not made with 'background' and 'stream', or its stream was not stored.")
        .with_param("stream");
  ApiAnswer out("");
  out.follow = answer.log;
  if (const std::optional<std::string> after = query_value(call.query, "starting_after")) {
    std::size_t number = 0;
    const auto [end, error] = std::from_chars(after->data(), after->data() + after->size(), number);
    if (error != std::errc() || end != after->data() + after->size() || number > (std::size_t{1} << 40))
      return invalid_argument("'starting_after' must be the number of an event.")
          .with_param("starting_after");
    out.first_event = number + 1;
  }
  return out;
}

Result<ApiAnswer> retrieve(const ApiCall& call, const ApiContext& context) {
  constexpr std::string_view kItems = "/input_items";
  std::string_view id = call.parameter;
  const bool items = id.ends_with(kItems);
  if (items) id.remove_suffix(kItems.size());
  Result<StoredAnswer> found = stored(id, call, context);
  if (!found) return found.error();
  if (!items && query_value(call.query, "stream") == "true") return followed(*found, call);
  return ApiAnswer(items ? items_list(*found, id) : std::move(found->answer));
}

Result<ApiAnswer> cancel(const ApiCall& call, const ApiContext& context) {
  constexpr std::string_view kCancel = "/cancel";
  std::string_view id = call.parameter;
  if (!id.ends_with(kCancel)) return no_such(id);
  id.remove_suffix(kCancel.size());
  Result<StoredAnswer> found = stored(id, call, context);
  if (!found) return found.error();
  if (found->running && context.answers->finish(std::string(id), with_status(*found, "cancelled"))) {
    (void)context.detached->cancel(id);
    found = stored(id, call, context);
    if (!found) return found.error();
  }
  return ApiAnswer(std::move(found->answer));
}

Result<ApiAnswer> erase(const ApiCall& call, const ApiContext& context) {
  if (context.answers == nullptr || !context.answers->erase(call.parameter, call.owner))
    return no_such(call.parameter);
  if (context.detached != nullptr) (void)context.detached->cancel(call.parameter);
  return ApiAnswer(
      json::serialize(json::object{{"id", call.parameter}, {"object", "response"}, {"deleted", true}}));
}

constexpr std::string_view kOne = "/v1/responses/{response_id}";

constexpr ApiRoute kRoutes[] = {
    {{.method = "POST",
      .path = "/v1/responses",
      .cost = Cost::generation,
      .form = AnswerForm::sse,
      .body = BodyForm::json},
     create},
    {{.method = "POST", .path = "/v1/responses/input_tokens", .cost = Cost::text, .body = BodyForm::json},
     input_tokens},
    {{.method = "GET", .path = kOne, .cost = Cost::text}, retrieve},
    {{.method = "POST", .path = kOne, .cost = Cost::text, .body = BodyForm::any, .max_body_bytes = 65536},
     cancel},
    {{.method = "DELETE", .path = kOne, .cost = Cost::text}, erase},
};

constexpr Protocol kProtocol = {.name = "responses", .routes = kRoutes, .error_body = openai_error_body};

}  // namespace

const Protocol& responses_protocol() { return kProtocol; }

}  // namespace pagoda
