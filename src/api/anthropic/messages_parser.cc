#include "api/anthropic/messages_parser.h"

#include <boost/json/array.hpp>

#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/ends.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Each object of a list of blocks, with its type, until one is wrong.
template <class Take>
void each_block(FieldReader& owner, const json::array& blocks, std::string_view name, Take take) {
  for (std::size_t i = 0; i < blocks.size() && owner.ok(); ++i) {
    const std::string path = concat(name, ".", i);
    const json::object* block = blocks[i].if_object();
    if (block == nullptr) return owner.fail(path, "must be an object with a type");
    FieldReader reader(*block, owner.path_of(path));
    const std::string type = reader.string("type", 64).value_or("");
    if (reader.ok() && type.empty()) reader.fail("type", "is required");
    if (reader.ok()) take(reader, type);
    if (!reader.ok()) owner.fail(reader.status());
  }
}

std::string required_text(FieldReader& reader, std::string_view name) {
  std::optional<std::string> text = reader.string(name, kAnyLength);
  if (reader.ok() && !text) reader.fail(name, "is required");
  return std::move(text).value_or("");
}

void refuse_block(FieldReader& reader, std::string_view type) {
  if (type == "image" || type == "document" || type == "file")
    reader.fail("type", concat("is '", type, "', but this model takes text only"));
  else
    reader.fail("type", concat("'", to_valid_utf8(type), "' is not known here"));
}

void add_text(Content& content, std::string text) {
  content.form = content.parts.empty() ? Content::Form::text : Content::Form::parts;
  content.parts.push_back({.text = std::move(text)});
}

// A text, or a list of text blocks.
Content read_texts(FieldReader& owner, std::string_view name) {
  Content out;
  const json::value* value = owner.raw(name);
  if (value == nullptr) return out;
  if (value->is_string()) return Content::of(std::string(value->as_string()));
  if (!value->is_array()) {
    owner.fail(name, "must be a string or a list of text blocks");
    return out;
  }
  const json::array* blocks = owner.array(name, kMaxMessages);
  if (blocks == nullptr) return out;
  each_block(owner, *blocks, name, [&out](FieldReader& block, std::string_view type) {
    if (type != "text") return refuse_block(block, type);
    add_text(out, required_text(block, "text"));
  });
  return out;
}

// Turns of the user one after the other are one turn to the model.
void add_user_text(std::vector<ChatMessage>& messages, std::string text) {
  ChatMessage* last = last_of(messages);
  if (last == nullptr || last->role != "user") last = &messages.emplace_back(ChatMessage{.role = "user"});
  add_text(last->content, std::move(text));
}

void read_user_blocks(FieldReader& message, const json::array& blocks, std::vector<ChatMessage>& out) {
  if (blocks.empty()) return add_user_text(out, "");  // the same turn as an empty string
  each_block(message, blocks, "content", [&out](FieldReader& block, std::string_view type) {
    if (type == "text") return add_user_text(out, required_text(block, "text"));
    if (type != "tool_result") return refuse_block(block, type);
    ChatMessage result{.role = "tool"};
    result.tool_call_id = required_text(block, "tool_use_id");
    (void)block.boolean("is_error");  // the text says so itself
    result.content = read_texts(block, "content");
    if (result.content.form == Content::Form::none) result.content = Content::of("");
    out.push_back(std::move(result));
  });
}

void read_assistant_blocks(FieldReader& message, const json::array& blocks, ChatMessage& out) {
  each_block(message, blocks, "content", [&out](FieldReader& block, std::string_view type) {
    if (type == "text") {
      add_text(out.content, required_text(block, "text"));
    } else if (type == "thinking") {
      out.reasoning = concat(out.reasoning.value_or(""), required_text(block, "thinking"));
    } else if (type == "redacted_thinking") {  // nobody can read it
    } else if (type == "tool_use") {
      const std::string id = required_text(block, "id");
      const std::optional<std::string> name = block.string("name", kMaxToolNameBytes);
      if (block.ok() && !name) block.fail("name", "is required");
      const json::object* input = block.object("input");
      if (!block.ok()) return;
      out.tool_calls.push_back(ToolCall::of(id, *name, input == nullptr ? json::object() : *input));
      if (out.tool_calls.size() > kMaxTools) block.fail("type", "is 'tool_use' too often");
    } else {
      refuse_block(block, type);
    }
  });
}

void read_message(FieldReader& message, std::vector<ChatMessage>& out) {
  const std::string role = message.string("role", 64).value_or("");
  if (message.ok() && role != "user" && role != "assistant" && role != "system")
    message.fail("role", "must be 'user' or 'assistant'");
  const json::value* content = message.raw("content");
  if (message.ok() && content == nullptr) message.fail("content", "is required");
  if (!message.ok()) return;
  if (role == "system") {
    out.push_back({.role = "system", .content = read_texts(message, "content")});
    return;
  }
  if (content->is_string()) {
    std::string text(content->as_string());
    if (role == "user")
      add_user_text(out, std::move(text));
    else
      out.push_back({.role = role, .content = Content::of(std::move(text))});
    return;
  }
  if (!content->is_array()) return message.fail("content", "must be a string or a list of blocks");
  const json::array* blocks = message.array("content", kMaxMessages);
  if (blocks == nullptr) return;
  if (role == "user") return read_user_blocks(message, *blocks, out);
  ChatMessage turn{.role = role};
  read_assistant_blocks(message, *blocks, turn);
  if (!turn.tool_calls.empty()) turn.content.be_text();
  out.push_back(std::move(turn));
}

void read_messages(FieldReader& fields, Conversation& conversation) {
  if (Content system = read_texts(fields, "system"); system.form != Content::Form::none)
    conversation.messages.push_back({.role = "system", .content = std::move(system)});
  const json::array* messages = fields.array("messages", kMaxMessages);
  if (!fields.ok()) return;
  if (messages == nullptr) return fields.fail("messages", "is required");
  if (messages->empty()) return fields.fail("messages", "must not be empty");
  for (std::size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    const std::string path = concat("messages.", i);
    const json::object* message = (*messages)[i].if_object();
    if (message == nullptr) return fields.fail(path, "must be an object");
    FieldReader reader(*message, path);
    read_message(reader, conversation.messages);
    if (!reader.ok()) fields.fail(reader.status());
  }
  if (!fields.ok()) return;
  // What the assistant has begun is gone on with.
  const ChatMessage* last = last_of(conversation.messages);
  if (last != nullptr && last->role == "assistant" && last->tool_calls.empty() &&
      last->content.form != Content::Form::none) {
    conversation.continue_final_message = true;
    conversation.add_generation_prompt = false;
  }
}

void read_tools(FieldReader& fields, ChatCall& call) {
  bool shown = true;
  if (const json::object* choice = fields.object("tool_choice")) {
    FieldReader reader(*choice, "tool_choice");
    const std::string type = reader.string("type", 64).value_or("");
    call.answer.parallel_calls = !reader.boolean("disable_parallel_tool_use").value_or(false);
    if (type == "any") {
      call.choice.kind = ToolChoice::Kind::required;
    } else if (type == "tool") {
      call.choice = {.kind = ToolChoice::Kind::named,
                     .name = reader.string("name", kMaxToolNameBytes).value_or("")};
      if (reader.ok() && call.choice.name.empty()) reader.fail("name", "is required");
    } else if (type != "auto" && type != "none" && reader.ok()) {
      reader.fail("type", "must be 'auto', 'any', 'tool' or 'none'");
    }
    shown = type != "none";
    if (!reader.ok()) return fields.fail(reader.status());
  }
  const json::array* tools = fields.array("tools", kMaxTools);
  if (tools == nullptr) return;
  for (std::size_t i = 0; i < tools->size() && fields.ok(); ++i) {
    const std::string path = concat("tools.", i);
    const json::object* tool = (*tools)[i].if_object();
    if (tool == nullptr) return fields.fail(path, "must be an object");
    FieldReader reader(*tool, path);
    const std::string type = reader.string("type", 64).value_or("custom");
    if (reader.ok() && type != "custom")
      reader.not_built("type", "only tools that the client runs itself are known here");
    const std::optional<std::string> name = reader.string("name", kMaxToolNameBytes);
    if (reader.ok() && !name) reader.fail("name", "is required");
    const std::string description = reader.string("description", kAnyLength).value_or("");
    const json::object* schema = reader.object("input_schema");
    const bool strict = reader.boolean("strict").value_or(false);
    if (reader.ok() && schema == nullptr) reader.fail("input_schema", "is required");
    if (!reader.ok()) return fields.fail(reader.status());
    call.conversation.tools.push_back(ToolSpec::of(*name, description, *schema));
    call.conversation.tools.back().strict = strict;
  }
  if (!shown) call.conversation.tools.clear();
}

void read_thinking(FieldReader& fields, const ApiContext& context, Conversation& conversation) {
  const json::object* thinking = fields.object("thinking");
  if (thinking == nullptr) return;
  FieldReader reader(*thinking, "thinking");
  const std::string type = reader.string("type", 64).value_or("");
  (void)reader.integer("budget_tokens", 1, 1 << 30);  // the model thinks as long as it does
  if (reader.ok() && type != "enabled" && type != "disabled" && type != "adaptive")
    reader.fail("type", "must be 'enabled', 'adaptive' or 'disabled'");
  if (!reader.ok()) return fields.fail(reader.status());
  // Adaptive leaves it to the model, whose server may have been told otherwise.
  if (type == "adaptive" && context.template_kwargs.contains("enable_thinking")) return;
  conversation.template_kwargs["enable_thinking"] = type != "disabled";
}

}  // namespace

Result<MessagesCall> parse_messages_call(std::string_view body, bool counting, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  const std::optional<std::string> model = fields.string("model", 1024);
  if (fields.ok() && !model) fields.fail("model", "is required");
  if (model) PAGODA_RETURN_IF_ERROR(check_model(*model, context));

  MessagesCall call;
  ChatCall& chat = call.chat;
  chat.sampling = default_sampling(context);
  chat.clip_max_tokens = true;
  read_messages(fields, chat.conversation);
  read_tools(fields, chat);
  read_thinking(fields, context, chat.conversation);
  if (const json::object* config = fields.object("output_config")) {
    FieldReader inner(*config, "output_config");
    chat.form = read_response_format(inner, "format");
    if (!inner.ok()) fields.fail(inner.status());
  }
  if (std::optional<GrammarSpec> form = read_response_format(fields, "output_format"))  // its older place
    chat.form = std::move(form);
  fields.not_built("mcp_servers", "it is not built in");
  fields.not_built("container", "it is not built in");
  if (!counting) {
    call.stream = fields.boolean("stream").value_or(false);
    read_sampling(fields, {}, chat.sampling);
    chat.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);  // for measurements
    read_stops(fields, "stop_sequences", chat.answer);
    chat.max_tokens = fields.integer("max_tokens", 1, 1 << 30);
    if (fields.ok() && !chat.max_tokens) fields.fail("max_tokens", "is required");
  }
  if (!fields.ok()) return fields.status();
  if (!counting)
    note_unknown_fields(fields, "messages",
                        {"metadata", "service_tier", "context_management", "inference_geo", "betas"});
  return call;
}

}  // namespace pagoda
