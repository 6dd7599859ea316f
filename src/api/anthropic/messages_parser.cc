#include "api/anthropic/messages_parser.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "api/cache_hint_fields.h"
#include "api/content_parts.h"
#include "api/declared_tools.h"
#include "api/grammar_fields.h"
#include "api/json.h"
#include "api/reasoning_fields.h"
#include "api/tool_fields.h"
#include "api/unknown_fields.h"
#include "base/assign_or_return.h"
#include "base/ends.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// Calls `take` for each block of a list, with its type, until the first error.
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

void add_text(Content& content, std::string text) {
  content.form = content.parts.empty() ? Content::Form::text : Content::Form::parts;
  content.parts.push_back({.text = std::move(text)});
}

// Results of the provider's own tools are part of the assistant's turn; the model gets them as messages.
bool is_server_result(std::string_view type) {
  return type.ends_with("_tool_result") && type != "tool_result";
}

// Collects the texts of a result at any depth. Data that only the provider can read is left out.
void collect_texts(const json::value& value, std::string& out) {
  constexpr std::string_view kTexts[] = {"title",  "url",     "text",      "data",      "stdout",
                                         "stderr", "content", "tool_name", "error_code"};
  if (const json::array* list = value.if_array())
    for (const json::value& entry : *list) collect_texts(entry, out);
  const json::object* object = value.if_object();
  if (object == nullptr) return;
  for (const auto& [name, member] : *object) {
    const bool shown = std::ranges::find(kTexts, std::string_view(name)) != std::end(kTexts);
    if (!member.is_string())
      collect_texts(member, out);
    else if (shown && !member.as_string().empty())
      out.append(out.empty() ? "" : "\n").append(member.as_string());
  }
}

class MessageReader {
 public:
  MessageReader(Warnings& warnings, std::vector<ChatMessage>& out) : warnings_(warnings), out_(out) {}

  // Reads a string or a list of text blocks.
  Content read_texts(FieldReader& owner, std::string_view name, Media media = Media::refused) {
    Content content;
    const json::value* value = owner.raw(name, {"string", "array"});
    if (value == nullptr) return content;
    if (value->is_string()) return Content::of(std::string(value->as_string()));
    if (!value->is_array()) {
      owner.fail(name, "must be a string or a list of text blocks");
      return content;
    }
    for (ContentPart& part : read_parts(owner, name, value->as_array(), warnings_, nullptr, media))
      add_text(content, std::move(part.text));
    return content;
  }

  void read(FieldReader& message) {
    const std::string role = message.string("role", 64).value_or("");
    if (message.ok() && role != "user" && role != "assistant" && role != "system")
      message.fail("role", "must be 'user' or 'assistant'");
    const json::value* content = message.raw("content", {"string", "array"});
    if (message.ok() && content == nullptr) message.fail("content", "is required");
    if (!message.ok()) return;
    if (role == "system") {
      out_.push_back({.role = "system", .content = read_texts(message, "content")});
      return;
    }
    if (content->is_string()) {
      std::string text(content->as_string());
      if (role == "user")
        add_user_text(std::move(text));
      else
        out_.push_back({.role = role, .content = Content::of(std::move(text))});
      return;
    }
    if (!content->is_array()) return message.fail("content", "must be a string or a list of blocks");
    const json::array* blocks = message.array("content", kMaxMessages);
    if (blocks == nullptr) return;
    role == "user" ? read_user_blocks(message, *blocks) : read_assistant_blocks(message, *blocks);
  }

 private:
  // Consecutive user turns are merged into one turn.
  void add_user_text(std::string text) {
    ChatMessage* last = last_of(out_);
    if (last == nullptr || last->role != "user") last = &out_.emplace_back(ChatMessage{.role = "user"});
    add_text(last->content, std::move(text));
  }

  void add_result(std::string call_id, Content content) {
    ChatMessage result{.role = "tool", .content = std::move(content)};
    result.tool_call_id = std::move(call_id);
    if (result.content.form == Content::Form::none) result.content = Content::of("");
    out_.push_back(std::move(result));
  }

  void read_user_blocks(FieldReader& message, const json::array& blocks) {
    const std::size_t before = out_.size();
    each_block(message, blocks, "content", [this](FieldReader& block, std::string_view type) {
      if (type == "tool_result" || type == "mcp_tool_result") {
        std::string id = required_text(block, "tool_use_id");
        (void)block.boolean("is_error");  // the text tells the model about errors
        Content content = read_texts(block, "content", Media::named);
        if (block.ok()) add_result(std::move(id), std::move(content));
        return;
      }
      if (std::optional<PartText> part = read_part(block, warnings_)) add_user_text(std::move(part->text));
    });
    // A message without blocks that can be shown is treated like an empty string.
    const ChatMessage* last = last_of(out_);
    if (out_.size() == before && (last == nullptr || last->role != "user")) add_user_text("");
  }

  void read_call(FieldReader& block, ChatMessage& turn) {
    const std::string id = required_text(block, "id");
    const std::optional<std::string> name = block.string("name", kMaxToolNameBytes);
    if (block.ok() && !name) block.fail("name", "is required");
    ToolArguments arguments = read_call_arguments(block, "input", keys_left_);
    if (!block.ok()) return;
    turn.tool_calls.push_back(ToolCall::of(id, *name, std::move(arguments)));
    if (turn.tool_calls.size() > kMaxTools) block.fail("type", "is 'tool_use' in too many blocks");
  }

  void end_turn(ChatMessage& turn) {
    if (!turn.tool_calls.empty()) turn.content.be_text();
    out_.push_back(std::exchange(turn, {.role = "assistant"}));
  }

  void read_assistant_blocks(FieldReader& message, const json::array& blocks) {
    ChatMessage turn{.role = "assistant"};
    bool ended = false;  // and no new turn has begun
    each_block(message, blocks, "content", [&](FieldReader& block, std::string_view type) {
      if (type == "tool_use" || type == "server_tool_use" || type == "mcp_tool_use") {
        read_call(block, turn);
      } else if (is_server_result(type)) {
        const json::value* result = block.raw("content");
        std::string text;
        if (result != nullptr && result->is_string()) text = result->as_string();
        if (result != nullptr) collect_texts(*result, text);
        std::string id = block.string("tool_use_id", kAnyLength).value_or("");
        if (!ended) end_turn(turn);
        add_result(std::move(id), Content::of(std::move(text)));
        ended = true;
        return;
      } else if (type != "redacted_thinking") {  // only Anthropic can decrypt it
        const std::optional<PartText> part = read_part(block, warnings_);
        if (!part) return;
        if (part->thought)
          turn.reasoning = concat(turn.reasoning.value_or(""), part->text);
        else
          add_text(turn.content, part->text);
      }
      ended = false;
    });
    if (!ended) end_turn(turn);
  }

  Warnings& warnings_;
  std::vector<ChatMessage>& out_;
  std::size_t keys_left_ = kMaxArgumentKeys;
};

// Claude Code begins its system prompt with a line for Anthropic's billing. The line means nothing to a model
// and changes with each session or request, so everything after it would miss the prefix cache.
void leave_out_billing(Content& system) {
  for (std::size_t i = 0; i < system.parts.size(); ++i) {
    std::string& text = system.parts[i].text;
    if (!text.starts_with("x-anthropic-billing-header:")) continue;
    const std::size_t end = text.find('\n');
    text.erase(0, end == std::string::npos ? end : end + 1);
    if (text.empty()) system.parts.erase(system.parts.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

void read_conversation(FieldReader& fields, Conversation& conversation, Warnings& warnings) {
  MessageReader reader(warnings, conversation.messages);
  Content system = reader.read_texts(fields, "system");
  leave_out_billing(system);
  if (!system.parts.empty())
    conversation.messages.push_back({.role = "system", .content = std::move(system)});
  const json::array* messages = fields.array("messages", kMaxMessages);
  if (!fields.ok()) return;
  if (messages == nullptr) return fields.fail("messages", "is required");
  if (messages->empty()) return fields.fail("messages", "must not be empty");
  for (std::size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    const std::string path = concat("messages.", i);
    const json::object* message = (*messages)[i].if_object();
    if (message == nullptr) return fields.fail(path, "must be an object");
    FieldReader inner(*message, path);
    reader.read(inner);
    if (!inner.ok()) fields.fail(inner.status());
  }
  if (!fields.ok()) return;
  // If the last message is the assistant's, it is continued.
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
  DeclaredTools tools(ToolProtocol::messages);
  tools.read(fields, "tools", call.warnings);
  tools.settle();
  if (tools.left_out(call.choice.name) && tools.find("", call.choice.name).empty())
    fields.fail("tool_choice",
                concat("names '", name_or_mark(call.choice.name), "', a tool that this server does not run"));
  if (call.choice.forced() && tools.empty() && tools.any_left_out())
    fields.fail("tool_choice", "forces a call, but this server can offer none of 'tools' to the model");
  if (shown) call.conversation.tools = tools.take_tools();
}

}  // namespace

Result<MessagesCall> parse_messages_call(std::string_view body, bool counting, const ApiContext& context) {
  const Result<json::value> value = parse_json_body(body);
  if (!value) return value.error();
  FieldReader fields(value->as_object());
  const std::optional<std::string> model = fields.string("model", 1024);
  if (fields.ok() && !model) fields.fail("model", "is required");

  MessagesCall call;
  ChatCall& chat = call.chat;
  if (model) {
    PAGODA_ASSIGN_OR_RETURN(chat.answer.adapter, choose_model(*model, context));
  }
  chat.sampling = default_sampling(context);
  chat.clip_max_tokens = true;
  read_conversation(fields, chat.conversation, chat.warnings);
  read_tools(fields, chat);
  chat.reasoning = read_reasoning_wish(fields);
  chat.cache_hint = read_cache_hint(fields);
  chat.reasoning.add_template_variables(chat.conversation.template_kwargs, context.template_kwargs);
  if (const json::object* config = fields.object("output_config")) {
    FieldReader inner(*config, "output_config");
    chat.form = read_response_format(inner, "format");
    if (!inner.ok()) fields.fail(inner.status());
  }
  if (std::optional<GrammarSpec> form = read_response_format(fields, "output_format"))  // the older field
    chat.form = std::move(form);
  fields.not_built("mcp_servers", "this server does not implement it");
  fields.not_built("container", "this server does not implement it");
  if (!counting) {
    call.stream = fields.boolean("stream").value_or(false);
    read_sampling(fields, kVllmSampling, chat.sampling);
    chat.sampling.ignore_eos = fields.boolean("ignore_eos").value_or(false);  // for benchmarks
    read_stops(fields, "stop_sequences", chat.answer);
    chat.max_tokens = fields.integer("max_tokens", 0, 1 << 30);
    if (fields.ok() && !chat.max_tokens) fields.fail("max_tokens", "is required");
    // max_tokens 0: the prompt is only computed, to fill the prefix cache.
    chat.answer.without_generation = chat.max_tokens == 0;
    if (chat.answer.without_generation) chat.max_tokens = 1;
  }
  if (!fields.ok()) return fields.status();
  if (!counting)
    note_unknown_fields(
        fields, chat.warnings,
        {"metadata", "service_tier", "context_management", "inference_geo", "betas", "user_profile_id"});
  return call;
}

}  // namespace pagoda
