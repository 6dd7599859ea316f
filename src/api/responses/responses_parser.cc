#include "api/responses/responses_parser.h"

#include "api/answer_store.h"
#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/responses/input_items.h"
#include "api/responses/stored_response.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

ToolChoice read_choice(FieldReader& fields) {
  using Kind = ToolChoice::Kind;
  const json::value* choice = fields.raw("tool_choice");
  if (choice == nullptr) return {};
  if (choice->is_string()) {
    if (choice->as_string() == "auto") return {};
    if (choice->as_string() == "none") return {.kind = Kind::none};
    if (choice->as_string() == "required") return {.kind = Kind::required};
    fields.fail("tool_choice", "must be 'auto', 'none', 'required' or an object");
    return {};
  }
  ToolChoice named{.kind = Kind::named};
  const json::object* object = fields.object("tool_choice");
  if (object == nullptr) return {};
  FieldReader reader(*object, "tool_choice");
  if (reader.string("type", 64).value_or("") != "function")
    reader.not_built("type", "only a function can be chosen");
  if (const auto name = reader.string("name", kMaxToolNameBytes))
    named.name = *name;
  else if (reader.ok())
    reader.fail("name", "is required");
  if (!reader.ok()) fields.fail(reader.status());
  return named;
}

void read_tools(FieldReader& fields, ResponsesCall& call) {
  call.chat.choice = read_choice(fields);
  const bool shown = call.chat.choice.kind != ToolChoice::Kind::none;
  const json::value* choice = fields.raw("tool_choice");
  call.shown["tool_choice"] = choice == nullptr ? json::value("auto") : *choice;
  call.chat.answer.parallel_calls = fields.boolean("parallel_tool_calls").value_or(true);
  call.shown["parallel_tool_calls"] = call.chat.answer.parallel_calls;
  json::array echoed;
  const json::array* tools = fields.array("tools", kMaxTools);
  for (std::size_t i = 0; tools != nullptr && i < tools->size() && fields.ok(); ++i) {
    const std::string path = concat("tools.", i);
    const json::object* tool = (*tools)[i].if_object();
    if (tool == nullptr) return fields.fail(path, "must be an object");
    FieldReader reader(*tool, path);
    if (reader.string("type", 64).value_or("") != "function")
      reader.not_built("type", "only functions that the client runs itself are known here");
    const std::optional<std::string> name = reader.string("name", kMaxToolNameBytes);
    if (reader.ok() && !name) reader.fail("name", "is required");
    const std::string description = reader.string("description", kAnyLength).value_or("");
    const json::object* parameters = reader.object("parameters");
    const std::optional<bool> strict = reader.boolean("strict");
    if (!reader.ok()) return fields.fail(reader.status());
    call.chat.conversation.tools.push_back(
        ToolSpec::of(*name, description, parameters == nullptr ? json::object() : *parameters));
    call.chat.conversation.tools.back().strict = strict.value_or(false);
    json::object echo{{"type", "function"}, {"name", *name}};
    if (!description.empty()) echo["description"] = description;
    echo["parameters"] = parameters == nullptr ? json::value(nullptr) : json::value(*parameters);
    echo["strict"] = strict ? json::value(*strict) : json::value(nullptr);
    echoed.push_back(std::move(echo));
  }
  call.shown["tools"] = std::move(echoed);
  if (!shown) call.chat.conversation.tools.clear();
}

void read_format(FieldReader& fields, ResponsesCall& call) {
  call.shown["text"] = json::object{{"format", json::object{{"type", "text"}}}};
  const json::object* text = fields.object("text");
  if (text == nullptr) return;
  FieldReader reader(*text, "text");
  call.chat.form = read_response_format(reader, "format");
  const json::object* format = reader.object("format");  // null when it is wrong, too
  if (call.chat.form && format != nullptr) call.shown["text"] = json::object{{"format", *format}};
  if (!reader.ok()) fields.fail(reader.status());
}

void read_reasoning(FieldReader& fields, ResponsesCall& call) {
  json::value effort = nullptr;
  if (const json::object* reasoning = fields.object("reasoning")) {
    FieldReader reader(*reasoning, "reasoning");
    if (const std::optional<std::string> level = reader.string("effort", 32)) {
      effort = *level;
      json::object& names = call.chat.conversation.template_kwargs;
      if (*level == "none")
        names["enable_thinking"] = false;
      else
        names["reasoning_effort"] = *level;
    }
    if (!reader.ok()) fields.fail(reader.status());
  }
  call.shown["reasoning"] = json::object{{"effort", effort}, {"summary", nullptr}};
}

void read_sampling_fields(FieldReader& fields, ResponsesCall& call) {
  ChatCall& chat = call.chat;
  read_sampling(fields,
                {.min_p = "min_p",
                 .repetition_penalty = "repetition_penalty",
                 .presence_penalty = "presence_penalty",
                 .frequency_penalty = "frequency_penalty",
                 .seed = "seed"},
                chat.sampling);
  call.shown["temperature"] = static_cast<double>(chat.sampling.temperature);
  call.shown["top_p"] = static_cast<double>(chat.sampling.top_p);
  chat.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  read_stops(fields, "stop", chat.answer);  // beyond OpenAI's, as for chats
  chat.max_tokens = fields.integer("max_output_tokens", 1, 1 << 30);
  call.shown["max_output_tokens"] = chat.max_tokens ? json::value(*chat.max_tokens) : json::value(nullptr);
  if (fields.integer("top_logprobs", 0, 20).value_or(0) > 0)
    fields.not_built("top_logprobs", "use /v1/chat/completions");
  if (const json::array* include = fields.array("include", 32))
    for (const json::value& entry : *include)
      if (entry == "message.output_text.logprobs")
        fields.not_built("include", "for log-probabilities use /v1/chat/completions");
}

// The conversation that an earlier answer of the same owner ended.
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
    return fields.fail("previous_response_id", "is of a response that is not complete yet");
  call.conversation = conversation_after(*previous);
}

}  // namespace

Result<ResponsesCall> parse_responses_call(std::string_view body, std::string_view owner,
                                           const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  if (const auto model = fields.string("model", 1024)) PAGODA_RETURN_IF_ERROR(check_model(*model, context));

  ResponsesCall call;
  call.chat.sampling = default_sampling(context);
  call.stream = fields.boolean("stream").value_or(false);
  call.background = fields.boolean("background").value_or(false);
  call.store =
      fields.boolean("store").value_or(true) && context.answers != nullptr && context.answers->enabled();
  read_sampling_fields(fields, call);
  read_format(fields, call);
  read_reasoning(fields, call);
  read_tools(fields, call);
  for (const std::string_view name : {"conversation", "prompt", "moderation", "context_management"})
    fields.not_built(name, "it is not built in");
  if (fields.string("truncation", 32).value_or("disabled") != "disabled")
    fields.not_built("truncation", "a conversation that is too long is refused");
  const json::object* metadata = fields.object("metadata");
  call.shown["metadata"] = metadata == nullptr ? json::object() : *metadata;
  call.shown["truncation"] = "disabled";
  call.shown["store"] = call.store;
  call.shown["background"] = call.background;
  if (call.background && (!call.store || context.detached == nullptr))
    fields.fail("background", "needs 'store', and a server that keeps answers (--response-store-bytes)");

  // Instructions of earlier calls do not carry over.
  std::optional<std::string> instructions = fields.string("instructions", kAnyLength);
  call.shown["instructions"] = instructions ? json::value(*instructions) : json::value(nullptr);
  std::vector<ChatMessage>& messages = call.chat.conversation.messages;
  if (instructions && !instructions->empty())
    messages.push_back({.role = "system", .content = Content::of(*std::move(instructions))});
  read_previous(fields, owner, context, call);
  if (fields.ok()) append_messages(fields, "previous_response_id", call.conversation, messages);
  const json::array input = read_input(fields, "input");
  if (fields.ok() && input.empty() && call.conversation.empty()) fields.fail("input", "is required");
  append_messages(fields, "input", input, messages);
  for (ChatMessage& message : messages) message.content.be_text();
  if (!fields.ok()) return fields.status();
  note_unknown_fields(fields, "responses",
                      {"stream_options", "user", "safety_identifier", "prompt_cache_key", "service_tier",
                       "max_tool_calls", "prompt_cache_retention"});
  call.first_of_this_call = call.conversation.size();
  call.conversation.insert(call.conversation.end(), input.begin(), input.end());
  return call;
}

}  // namespace pagoda
