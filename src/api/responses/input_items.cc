#include "api/responses/input_items.h"

#include "api/json.h"
#include "api/tool_fields.h"
#include "base/ends.h"
#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// A text, or a list of parts whose types are among `types`.
Content read_parts(FieldReader& owner, std::string_view name, std::initializer_list<std::string_view> types) {
  Content out;
  const json::value* value = owner.raw(name);
  if (value == nullptr) return out;
  if (value->is_string()) return Content::of(std::string(value->as_string()));
  const json::array* parts = value->if_array();
  if (parts == nullptr || parts->size() > kMaxMessages) {
    owner.fail(name, "must be a string or a list of parts");
    return out;
  }
  for (std::size_t i = 0; i < parts->size() && owner.ok(); ++i) {
    const std::string path = concat(name, ".", i);
    const json::object* part = (*parts)[i].if_object();
    if (part == nullptr) {
      owner.fail(path, "must be an object with a type");
      break;
    }
    FieldReader reader(*part, owner.path_of(path));
    const std::string type = reader.string("type", 64).value_or("");
    const bool known = std::find(types.begin(), types.end(), type) != types.end();
    if (reader.ok() && (type == "input_image" || type == "input_file" || type == "input_audio"))
      reader.fail("type", concat("is '", type, "', but this model takes text only"));
    else if (reader.ok() && !known)
      reader.fail("type", "is not one that may stand here");
    std::optional<std::string> text = reader.string(type == "refusal" ? "refusal" : "text", kAnyLength);
    if (reader.ok() && !text) reader.fail("text", "is required");
    if (!reader.ok()) return owner.fail(reader.status()), out;
    out.form = i == 0 ? Content::Form::text : Content::Form::parts;
    out.parts.push_back({.text = *std::move(text)});
  }
  return out;
}

// The assistant's turn that still may grow.
ChatMessage& open_turn(std::vector<ChatMessage>& out, bool usable) {
  ChatMessage* last = last_of(out);
  if (last != nullptr && last->role == "assistant" && usable) return *last;
  return out.emplace_back(ChatMessage{.role = "assistant"});
}

class ItemReader {
 public:
  explicit ItemReader(std::vector<ChatMessage>& out) : out_(out) {}

  void read(FieldReader& item) {
    const std::string type = item.string("type", 64).value_or("message");
    if (!item.ok()) return;
    if (type == "message") return message(item);
    if (type == "reasoning") return reasoning(item);
    if (type == "function_call") return call(item);
    if (type == "function_call_output") return output(item);
    item.not_built("type",
                   "it is of a tool that the server would have to run, or of an answer kept elsewhere");
  }

 private:
  const ChatMessage* last() const { return last_of(out_); }

  void message(FieldReader& item) {
    std::string role = item.string("role", 64).value_or("");
    if (item.ok() && role != "user" && role != "assistant" && role != "system" && role != "developer")
      item.fail("role", "must be 'user', 'assistant', 'system' or 'developer'");
    if (item.ok() && item.raw("content") == nullptr) item.fail("content", "is required");
    Content content = read_parts(item, "content", {"input_text", "output_text", "text", "refusal"});
    if (!item.ok()) return;
    if (role != "assistant") return out_.push_back({.role = std::move(role), .content = std::move(content)});
    const bool open =
        last() != nullptr && last()->content.form == Content::Form::none && last()->tool_calls.empty();
    open_turn(out_, open).content = std::move(content);
  }

  void reasoning(FieldReader& item) {
    Content text = read_parts(item, "content", {"reasoning_text", "text"});
    if (text.form == Content::Form::none) text = read_parts(item, "summary", {"summary_text"});
    if (!item.ok()) return;
    const bool open =
        last() != nullptr && last()->content.form == Content::Form::none && last()->tool_calls.empty();
    ChatMessage& turn = open_turn(out_, open);
    turn.reasoning = concat(turn.reasoning.value_or(""), text.joined());
  }

  void call(FieldReader& item) {
    const std::optional<std::string> name = item.string("name", kMaxToolNameBytes);
    if (item.ok() && !name) item.fail("name", "is required");
    std::optional<std::string> id = item.string("call_id", 256);
    if (item.ok() && !id) item.fail("call_id", "is required");
    json::object arguments = read_call_arguments(item, keys_left_);
    if (!item.ok()) return;
    open_turn(out_, true).tool_calls.push_back(ToolCall::of(*id, *name, std::move(arguments)));
  }

  void output(FieldReader& item) {
    ChatMessage result{.role = "tool"};
    result.tool_call_id = item.string("call_id", 256);
    if (item.ok() && item.raw("output") == nullptr) item.fail("output", "is required");
    result.content = read_parts(item, "output", {"input_text", "output_text", "text"});
    if (item.ok()) out_.push_back(std::move(result));
  }

  std::vector<ChatMessage>& out_;
  std::size_t keys_left_ = kMaxArgumentKeys;
};

}  // namespace

json::array read_input(FieldReader& fields, std::string_view name) {
  const json::value* input = fields.raw(name);
  if (input == nullptr) return {};
  if (input->is_string()) return {json::object{{"type", "message"}, {"role", "user"}, {"content", *input}}};
  if (!input->is_array()) {
    fields.fail(name, "must be a string or a list of items");
    return {};
  }
  const json::array* items = fields.array(name, kMaxMessages);
  return items == nullptr ? json::array() : *items;
}

void append_messages(FieldReader& fields, std::string_view name, const json::array& items,
                     std::vector<ChatMessage>& out) {
  ItemReader reader(out);
  for (std::size_t i = 0; i < items.size() && fields.ok(); ++i) {
    const std::string path = concat(name, ".", i);
    const json::object* item = items[i].if_object();
    if (item == nullptr) return fields.fail(path, "must be an object");
    FieldReader inner(*item, path);
    reader.read(inner);
    if (!inner.ok()) fields.fail(inner.status());
  }
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
