#include "api/responses/input_items.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "api/content_parts.h"
#include "api/json.h"
#include "api/tool_fields.h"
#include "base/ends.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// The form in which an item is shown to the model.
enum class ItemForm : std::uint8_t {
  message,
  agent_message,  // from another agent to this one
  reasoning,
  call,         // with arguments as JSON text
  custom_call,  // with its input as text
  action,       // a call with its arguments in a field of its type
  hosted,       // an action that includes its result
  output,
  tools,        // declares tools
  found_tools,  // declares tools, as the output of a call
  unreadable,
};

struct ItemType {
  std::string_view name;
  ItemForm form;
  std::string_view tool = {};    // name of the tool shown; empty: the item's own
  std::string_view input = {};   // field with the arguments
  std::string_view output = {};  // field with the result
};

using enum ItemForm;

constexpr ItemType kItems[] = {
    {"message", message},
    {"agent_message", agent_message},
    {"reasoning", reasoning},
    {"function_call", call},
    {"function_call_output", output, "", "", "output"},
    {"custom_tool_call", custom_call},
    {"custom_tool_call_output", output, "", "", "output"},
    {"local_shell_call", action, "local_shell", "action"},
    {"local_shell_call_output", output, "", "", "output"},
    {"shell_call", action, "shell", "action"},
    {"shell_call_output", output, "", "", "output"},
    {"apply_patch_call", action, "apply_patch", "operation"},
    {"apply_patch_call_output", output, "", "", "output"},
    {"computer_call", action, "computer", "action"},
    {"computer_call_output", output, "", "", "output"},
    {"tool_search_call", action, "tool_search", "arguments"},
    {"tool_search_output", found_tools},
    {"additional_tools", tools},
    {"program", action, "program", "code"},
    {"program_output", output, "", "", "result"},
    {"web_search_call", hosted, "web_search", "action", "status"},
    {"file_search_call", hosted, "file_search", "queries", "results"},
    {"code_interpreter_call", hosted, "code_interpreter", "code", "outputs"},
    {"mcp_call", hosted, "", "arguments", "output"},
    {"mcp_approval_request", action, "", "arguments"},
    {"mcp_approval_response", output, "", "", "approve"},
    {"mcp_list_tools", unreadable},
    {"image_generation_call", unreadable},
    {"compaction", unreadable},
    {"compaction_summary", unreadable},
    {"compaction_trigger", unreadable},
    {"context_compaction", unreadable},
    {"configuration_update", unreadable},
    {"ghost_snapshot", unreadable},
};

const ItemType* find_item_type(std::string_view name) {
  const auto* found = std::ranges::find(kItems, name, &ItemType::name);
  return found == std::end(kItems) ? nullptr : found;
}

// Reads a string or a list of parts.
Content read_content(FieldReader& owner, std::string_view name, Warnings& warnings,
                     Media media = Media::refused) {
  const json::value* value = owner.raw(name, {"string", "array"});
  if (value == nullptr) return {};
  if (value->is_string()) return Content::of(std::string(value->as_string()));
  const json::array* parts = value->if_array();
  if (parts == nullptr) {
    owner.fail(name, "must be a string or a list of parts");
    return {};
  }
  Content out{.parts = read_parts(owner, name, *parts, warnings, nullptr, media)};
  if (!out.parts.empty()) out.form = out.parts.size() == 1 ? Content::Form::text : Content::Form::parts;
  return out;
}

// Any tool result as text: strings unchanged, lists line by line, other values as JSON.
std::string text_of(const json::value& value) {
  if (value.is_null()) return {};
  if (const json::string* text = value.if_string()) return std::string(*text);
  if (const json::array* list = value.if_array()) {
    std::string out;
    for (const json::value& entry : *list) out.append(out.empty() ? "" : "\n").append(text_of(entry));
    return out;
  }
  if (const json::object* object = value.if_object())
    for (const std::string_view name : {"text", "logs"})
      if (const json::value* text = object->if_contains(name); text != nullptr && text->is_string())
        return std::string(text->as_string());
  return json::serialize(value);
}

bool has_typed_parts(const json::value& value) {
  const json::array* list = value.if_array();
  return list != nullptr && !list->empty() && list->front().is_object() &&
         list->front().as_object().contains("type");
}

// Arguments that are not an object become one with the single member `name`.
json::object as_arguments(const json::value& value, std::string_view name) {
  if (const json::object* object = value.if_object()) return *object;
  return {{name, value}};
}

// The current turn of the assistant, which may consist of several items (reasoning, messages, calls) in any
// order. Begins one if needed.
ChatMessage& open_turn(std::vector<ChatMessage>& out) {
  ChatMessage* last = last_of(out);
  if (last != nullptr && last->role == "assistant") return *last;
  return out.emplace_back(ChatMessage{.role = "assistant"});
}

class ItemReader {
 public:
  ItemReader(const DeclaredTools& tools, Warnings& warnings, std::vector<ChatMessage>& out)
      : tools_(tools), warnings_(warnings), out_(out) {}

  void read(FieldReader& item) {
    const std::string name = item.string("type", 128).value_or("message");
    if (!item.ok()) return;
    const ItemType* type = find_item_type(name);
    if (type == nullptr) return item.not_built("type", "this server does not support this type of item");
    switch (type->form) {
      case message:
        return read_message(item, item.string("role", 64).value_or(""));
      case agent_message:
        return read_message(item, "user");
      case reasoning:
        return read_reasoning(item);
      case call:
        return read_call(item);
      case custom_call:
        return read_custom_call(item);
      case action:
      case hosted:
        return read_action(item, *type);
      case output:
        return read_output(item, *type);
      case found_tools:
        return read_found_tools(item);
      case tools:
        return;
      case unreadable:
        return warnings_.add(item.path_of("type"), concat("an item of the type '", type->name,
                                                          "' holds no text for the model and is left out"));
    }
  }

 private:
  void read_message(FieldReader& item, std::string role) {
    if (item.ok() && role != "user" && role != "assistant" && role != "system" && role != "developer")
      item.fail("role", "must be 'user', 'assistant', 'system' or 'developer'");
    if (item.ok() && !item.has("content")) item.fail("content", "is required");
    Content content = read_content(item, "content", warnings_);
    if (!item.ok()) return;
    if (role != "assistant") return out_.push_back({.role = std::move(role), .content = std::move(content)});
    ChatMessage& turn = open_turn(out_);
    if (turn.content.form == Content::Form::none)
      turn.content = std::move(content);
    else
      turn.content.add(content);
  }

  void read_reasoning(FieldReader& item) {
    Content text = read_content(item, "content", warnings_);
    if (text.form == Content::Form::none) text = read_content(item, "summary", warnings_);
    if (!item.ok()) return;
    std::optional<std::string>& reasoning = open_turn(out_).reasoning;
    if (reasoning && !reasoning->empty() && !text.joined().empty()) reasoning->append("\n\n");
    reasoning = concat(reasoning.value_or(""), text.joined());
  }

  // Reads the name that the model is shown for the tool of a call.
  std::string read_tool_name(FieldReader& item) {
    const std::optional<std::string> name = item.string("name", kMaxToolNameBytes);
    const std::string group = item.string("namespace", kMaxToolNameBytes).value_or("");
    if (item.ok() && !name) item.fail("name", "is required");
    return name ? tools_.model_name(group, *name) : std::string();
  }
  static std::optional<std::string> read_call_id(FieldReader& item) {
    std::optional<std::string> id = item.string("call_id", 256);
    return id ? id : item.string("id", 256);
  }

  void read_call(FieldReader& item) {
    const std::string name = read_tool_name(item);
    const std::optional<std::string> id = item.string("call_id", 256);
    if (item.ok() && !id) item.fail("call_id", "is required");
    ToolArguments arguments = read_call_arguments(item, "arguments", keys_left_);
    if (!item.ok()) return;
    open_turn(out_).tool_calls.push_back(ToolCall::of(*id, name, std::move(arguments)));
  }

  void read_custom_call(FieldReader& item) {
    const std::string name = read_tool_name(item);
    const std::optional<std::string> id = item.string("call_id", 256);
    if (item.ok() && !id) item.fail("call_id", "is required");
    const std::optional<std::string> input = item.string("input", kAnyLength);
    if (item.ok() && !input) item.fail("input", "is required");
    if (!item.ok()) return;
    open_turn(out_).tool_calls.push_back(ToolCall::of(*id, name, {.object = {{"input", *input}}}));
  }

  void read_action(FieldReader& item, const ItemType& type) {
    const std::string id = read_call_id(item).value_or("");
    const std::string name = type.tool.empty() ? read_tool_name(item) : std::string(type.tool);
    const json::value* input = item.raw(type.input);
    ToolArguments arguments;
    if (input != nullptr && type.tool.empty())
      arguments = read_call_arguments(item, type.input, keys_left_);
    else if (input != nullptr)
      arguments.object = as_arguments(*input, type.input);
    if (!item.ok()) return;
    open_turn(out_).tool_calls.push_back(ToolCall::of(id, name, std::move(arguments)));
    if (type.form != hosted) return;
    const json::value* result = item.raw(type.output);
    if (result == nullptr) result = item.raw("error");
    add_result(id, Content::of(result == nullptr ? "" : text_of(*result)));
  }

  void read_output(FieldReader& item, const ItemType& type) {
    const json::value* given = item.raw(type.output);
    if (given == nullptr) given = item.raw("status");
    if (item.ok() && given == nullptr) item.fail(type.output, "is required");
    std::optional<std::string> id = item.string("approval_request_id", 256);
    if (!id) id = read_call_id(item);
    if (!item.ok()) return;
    if (const json::object* object = given->if_object(); object != nullptr && object->contains("type")) {
      const json::array one{*given};  // a single part, such as a screenshot
      return add_result(std::move(id), Content{.form = Content::Form::parts,
                                               .parts = read_parts(item, type.output, one, warnings_, nullptr,
                                                                   Media::named)});
    }
    Content content = has_typed_parts(*given) ? read_content(item, type.output, warnings_, Media::named)
                                              : Content::of(text_of(*given));
    if (item.ok()) add_result(std::move(id), std::move(content));
  }

  void read_found_tools(FieldReader& item) {
    std::string names;
    if (const json::array* found = item.array("tools", kMaxTools))
      for (const json::value& tool : *found)
        if (const json::object* object = tool.if_object())
          if (const json::value* name = object->if_contains("name"); name != nullptr && name->is_string())
            names.append(names.empty() ? "" : ", ").append(name->as_string());
    if (item.ok()) add_result(read_call_id(item), Content::of(names));
  }

  void add_result(std::optional<std::string> id, Content content) {
    ChatMessage result{.role = "tool", .content = std::move(content)};
    result.tool_call_id = std::move(id);
    out_.push_back(std::move(result));
  }

  const DeclaredTools& tools_;
  Warnings& warnings_;
  std::vector<ChatMessage>& out_;
  std::size_t keys_left_ = kMaxArgumentKeys;
};

// Calls `take` for each item until the first error.
template <class Take>
void each_item(FieldReader& fields, std::string_view name, const json::array& items, Take take) {
  for (std::size_t i = 0; i < items.size() && fields.ok(); ++i) {
    const std::string path = concat(name, ".", i);
    const json::object* item = items[i].if_object();
    if (item == nullptr) return fields.fail(path, "must be an object");
    FieldReader inner(*item, path);
    take(inner);
    if (!inner.ok()) fields.fail(inner.status());
  }
}

}  // namespace

json::array read_input(FieldReader& fields, std::string_view name) {
  const json::value* input = fields.raw(name, {"string", "array"});
  if (input == nullptr) return {};
  if (input->is_string()) return {json::object{{"type", "message"}, {"role", "user"}, {"content", *input}}};
  if (!input->is_array()) {
    fields.fail(name, "must be a string or a list of items");
    return {};
  }
  const json::array* items = fields.array(name, kMaxMessages);
  return items == nullptr ? json::array() : *items;
}

void read_item_tools(FieldReader& fields, std::string_view name, const json::array& items,
                     DeclaredTools& tools, Warnings& warnings) {
  each_item(fields, name, items, [&](FieldReader& item) {
    const ItemType* type = find_item_type(item.string("type", 128).value_or("message"));
    if (type != nullptr && (type->form == ItemForm::tools || type->form == ItemForm::found_tools))
      tools.read(item, "tools", warnings);
  });
}

void append_messages(FieldReader& fields, std::string_view name, const json::array& items,
                     const DeclaredTools& tools, Warnings& warnings, std::vector<ChatMessage>& out) {
  ItemReader reader(tools, warnings, out);
  each_item(fields, name, items, [&](FieldReader& item) { reader.read(item); });
}

json::array shown_items(const json::array& items, std::string_view response_id) {
  json::array out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    json::object item = items[i].as_object();
    const json::value* type = item.if_contains("type");
    if (type == nullptr) item["type"] = "message";
    if (item.if_contains("id") == nullptr || item["id"].is_null())
      item["id"] = concat("item_", i, "_", response_id);
    if (item.if_contains("status") == nullptr || item["status"].is_null()) item["status"] = "completed";
    if (item["type"] == "message" && item["content"].is_string()) {
      const bool assistant = item["role"] == "assistant";
      json::object part{{"type", assistant ? "output_text" : "input_text"}, {"text", item["content"]}};
      if (assistant) {
        part["annotations"] = json::array();
        part["logprobs"] = json::array();
      }
      item["content"] = json::array{std::move(part)};
    }
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace pagoda
