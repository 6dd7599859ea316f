#include "api/responses/responses_parser.h"

#include <algorithm>
#include <charconv>

#include "api/answer_store.h"
#include "api/cache_hint_fields.h"
#include "api/declared_tools.h"
#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/model_fields.h"
#include "api/responses/input_items.h"
#include "api/responses/stored_response.h"
#include "api/tool_choice.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

struct ItemList {
  std::string_view name;
  const json::array* items;
};

// The tool as declared, plus the members that clients expect of every function.
json::value echoed(const json::value& tool) {
  const json::object* object = tool.if_object();
  const json::value* type = object == nullptr ? nullptr : object->if_contains("type");
  if (type == nullptr || *type != "function") return tool;
  json::object out = *object;
  for (const std::string_view name : {"parameters", "strict"})
    if (!out.contains(name)) out[name] = nullptr;
  return out;
}

// `items`: the lists of items, earliest first, which may declare tools as well.
void read_tools(FieldReader& fields, std::initializer_list<ItemList> items, DeclaredTools& tools,
                ResponsesCall& call) {
  const json::value* choice = fields.raw("tool_choice", {"string", "object"});
  call.shown["tool_choice"] = choice == nullptr ? json::value("auto") : *choice;
  call.chat.answer.parallel_calls = fields.boolean("parallel_tool_calls").value_or(true);
  call.shown["parallel_tool_calls"] = call.chat.answer.parallel_calls;
  json::array echo;
  if (const json::array* declared = fields.array("tools", kMaxTools))
    for (const json::value& tool : *declared) echo.push_back(echoed(tool));
  call.shown["tools"] = std::move(echo);
  tools.read(fields, "tools", call.chat.warnings);
  for (const auto& [name, list] : items) read_item_tools(fields, name, *list, tools, call.chat.warnings);
  tools.settle();
}

void read_format(FieldReader& fields, ResponsesCall& call) {
  call.shown["text"] = json::object{{"format", json::object{{"type", "text"}}}};
  const json::object* text = fields.object("text");
  if (text == nullptr) return;
  FieldReader reader(*text, "text");
  call.chat.form = read_response_format(reader, "format");
  const json::object* format = reader.object("format");  // also null if it has the wrong type
  if (call.chat.form && format != nullptr) call.shown["text"] = json::object{{"format", *format}};
  if (!reader.ok()) fields.fail(reader.status());
}

void read_reasoning(FieldReader& fields, const ApiContext& context, ResponsesCall& call) {
  ReasoningWish& wish = call.chat.reasoning = read_reasoning_wish(fields);
  wish.add_template_variables(call.chat.conversation.template_kwargs, context.template_kwargs);
  if (!wish.is_returned) call.chat.answer.include_reasoning = false;
  const json::value effort = wish.effort ? json::value(*wish.effort) : json::value(nullptr);
  call.shown["reasoning"] = json::object{{"effort", effort}, {"summary", nullptr}};
}

// 0.2f -> 0.2: converting to double directly would give a longer text.
double as_written(float number) {
  char buffer[40];
  const char* const end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  double value = 0;
  std::from_chars(buffer, end, value);
  return value;
}

void read_sampling_fields(FieldReader& fields, ResponsesCall& call) {
  ChatCall& chat = call.chat;
  read_sampling(fields, kVllmSampling, chat.sampling);
  call.shown["temperature"] = as_written(chat.sampling.temperature);
  call.shown["top_p"] = as_written(chat.sampling.top_p);
  chat.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  read_stops(fields, "stop", chat.answer);  // an extension, as for chat
  chat.max_tokens = fields.integer("max_output_tokens", 1, 1 << 30);
  call.shown["max_output_tokens"] = chat.max_tokens ? json::value(*chat.max_tokens) : json::value(nullptr);
}

// Log-probabilities are requested by "top_logprobs" or by "include".
void read_logprobs(FieldReader& fields, const ApiContext& context, ResponsesCall& call) {
  const auto count = fields.integer("top_logprobs", 0, context.max_logprobs);
  call.shown["top_logprobs"] = count.value_or(0);
  bool wanted = count.value_or(0) > 0;
  if (const json::array* include = fields.array("include", 32))
    for (const json::value& entry : *include) wanted = wanted || entry == "message.output_text.logprobs";
  if (!wanted) return;
  call.chat.sampling.logprobs = call.chat.answer.logprobs = static_cast<std::int32_t>(count.value_or(0));
  call.chat.answer.content_logprobs = true;
}

// Reads the conversation up to and including an earlier answer of the same owner.
void read_previous(FieldReader& fields, std::string_view owner, const ApiContext& context,
                   ResponsesCall& call) {
  const std::optional<std::string> id = fields.string("previous_response_id", 256);
  call.shown["previous_response_id"] = id ? json::value(*id) : json::value(nullptr);
  if (!id) return;
  const std::optional<StoredAnswer> previous =
      context.answers == nullptr ? std::nullopt : context.answers->find(*id, owner);
  if (!previous)
    return fields.fail(not_found(concat("Previous response with id '", to_valid_utf8(*id), "' not found."))
                           .with_param("previous_response_id")
                           .with_reason("previous_response_not_found"));
  if (previous->running)
    return fields.fail("previous_response_id", "belongs to a response that is not complete yet");
  call.conversation = conversation_after(*previous);
}

// Replaces item references by the items themselves, from earlier responses of the same owner.
void replace_references(FieldReader& fields, std::string_view owner, const ApiContext& context,
                        json::array& input) {
  for (std::size_t i = 0; i < input.size() && fields.ok(); ++i) {
    const json::object* item = input[i].if_object();
    if (item == nullptr) continue;
    const json::value* type = item->if_contains("type");
    const bool unnamed = (type == nullptr || type->is_null()) && !item->contains("role");
    const bool refers = unnamed ? item->contains("id") : type != nullptr && *type == "item_reference";
    if (!refers) continue;
    FieldReader inner(*item, concat("input.", i));
    const std::optional<std::string> id = inner.string("id", 256);
    if (inner.ok() && !id) inner.fail("id", "is required");
    if (!inner.ok()) return fields.fail(inner.status());
    const std::optional<StoredAnswer> stored =
        context.answers == nullptr ? std::nullopt : context.answers->find(response_of_item(*id), owner);
    std::optional<json::object> found = stored ? item_of(*stored, *id) : std::nullopt;
    if (!found)
      return fields.fail(
          not_found(concat("Item with id '", to_valid_utf8(*id),
                           "' not found. Items are not persisted when `store` is set to false. Try "
                           "again with `store` set to true, or remove this item from your input."))
              .with_param("input"));
    input[i] = *std::move(found);
  }
}

}  // namespace

Result<ResponsesCall> parse_responses_call(std::string_view body, std::string_view owner,
                                           const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  ResponsesCall call;
  PAGODA_ASSIGN_OR_RETURN(call.chat.answer.adapter, read_model(fields, context));
  call.chat.sampling = default_sampling(context);
  call.stream = fields.boolean("stream").value_or(false);
  call.background = fields.boolean("background").value_or(false);
  call.store =
      fields.boolean("store").value_or(true) && context.answers != nullptr && context.answers->enabled();
  read_sampling_fields(fields, call);
  read_logprobs(fields, context, call);
  read_format(fields, call);
  read_reasoning(fields, context, call);
  call.chat.cache_hint = read_cache_hint(fields);
  for (const std::string_view name : {"conversation", "prompt", "moderation", "context_management"})
    fields.not_built(name, "this server does not implement it");
  const json::object* metadata = fields.object("metadata");
  call.shown["metadata"] = metadata == nullptr ? json::object() : *metadata;
  const std::string truncation = fields.string("truncation", 32).value_or("disabled");
  if (fields.ok() && truncation != "auto" && truncation != "disabled")
    fields.fail("truncation", "must be 'auto' or 'disabled'");
  call.shown["truncation"] = truncation;
  call.chat.drop_oldest = truncation == "auto";
  call.shown["store"] = call.store;
  call.shown["background"] = call.background;
  if (call.background && (!call.store || context.detached == nullptr))
    fields.fail("background", "needs 'store', and a server that stores answers (--response-store-bytes)");

  // Instructions of earlier calls do not carry over.
  std::optional<std::string> instructions = fields.string("instructions", kAnyLength);
  call.shown["instructions"] = instructions ? json::value(*instructions) : json::value(nullptr);
  std::vector<ChatMessage>& messages = call.chat.conversation.messages;
  if (instructions && !instructions->empty())
    messages.push_back({.role = "system", .content = Content::of(*std::move(instructions))});
  read_previous(fields, owner, context, call);
  json::array input = read_input(fields, "input");
  replace_references(fields, owner, context, input);
  if (fields.ok() && !fields.has("input") && call.conversation.empty()) fields.fail("input", "is required");
  constexpr std::string_view kPrevious = "previous_response_id";
  DeclaredTools tools(ToolProtocol::responses);
  read_tools(fields, {{kPrevious, &call.conversation}, {"input", &input}}, tools, call);
  append_messages(fields, kPrevious, call.conversation, tools, call.chat.warnings, messages);
  append_messages(fields, "input", input, tools, call.chat.warnings, messages);
  // Codex probes a server with an empty list. Templates need at least one message that is not the system's.
  const auto speaks = [](const ChatMessage& message) { return message.role != "system"; };
  if (std::ranges::none_of(messages, speaks))
    messages.push_back({.role = "user", .content = Content::of("")});
  call.chat.choice = read_tool_choice(fields, tools);
  call.chat.answer.origins = tools.origins();
  if (call.chat.choice.kind != ToolChoice::Kind::none) call.chat.conversation.tools = tools.take_tools();
  for (ChatMessage& message : messages) message.content.be_text();
  if (!fields.ok()) return fields.status();
  note_unknown_fields(fields, call.chat.warnings,
                      {"stream_options", "user", "safety_identifier", "service_tier", "max_tool_calls"});
  call.first_of_this_call = call.conversation.size();
  call.conversation.insert(call.conversation.end(), input.begin(), input.end());
  return call;
}

}  // namespace pagoda
