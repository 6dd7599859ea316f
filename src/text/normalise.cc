#include "text/normalise.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <map>
#include <utility>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using Messages = std::vector<ChatMessage>;

bool is_system(const ChatMessage& message) { return message.role == "system" || message.role == "developer"; }
bool is_result(const ChatMessage& message) { return message.role == "tool" || message.role == "function"; }

// Merges `more`, a message of the same turn, into `message`.
void join(ChatMessage& message, ChatMessage more) {
  if (more.content.form != Content::Form::none) {
    message.content.be_text();
    message.content.add(more.content);
  }
  if (more.reasoning)
    message.reasoning =
        message.reasoning ? concat(*message.reasoning, "\n\n", *more.reasoning) : std::move(more.reasoning);
  std::move(more.tool_calls.begin(), more.tool_calls.end(), std::back_inserter(message.tool_calls));
}

class Normaliser {
 public:
  Normaliser(Conversation& conversation, const TemplateTraits& traits)
      : conversation_(conversation), messages_(conversation.messages), traits_(traits) {}

  void run() {
    roles();
    tools();
    unite();
    ids();
    calls();
    system();
    turns();
    for (ChatMessage& message : messages_) set_form(message);
  }

 private:
  void roles() {
    for (ChatMessage& message : messages_) {
      if (message.role == "developer" && !traits_.developer) message.role = "system";
      if (message.role == "function" && !traits_.function) message.role = "tool";
    }
  }

  void tools() {
    if (!traits_.tools) write_tools();
    for (ToolSpec& tool : conversation_.tools) {
      json::value* function = tool.shown.if_contains("function");
      if (function == nullptr || !function->is_object()) continue;
      json::object& fields = function->as_object();
      if (traits_.needs_description && fields["description"].is_null()) fields["description"] = "";
      if (traits_.needs_parameters) {
        json::value& parameters = fields["parameters"];
        if (!parameters.is_object()) parameters = json::object();
        json::object& schema = parameters.as_object();
        if (schema["type"].is_null()) schema["type"] = "object";
        if (schema["properties"].is_null()) schema["properties"] = json::object();
      }
      if (traits_.needs_property_descriptions) describe_properties(fields);
    }
  }

  static void describe_properties(json::object& function) {
    json::object* at = &function;
    for (const char* const name : {"parameters", "properties"}) {
      json::value* inner = at->if_contains(name);
      if (inner == nullptr || !inner->is_object()) return;
      at = &inner->as_object();
    }
    for (auto& property : *at)
      if (property.value().is_object() && property.value().as_object()["description"].is_null())
        property.value().as_object()["description"] = "";
  }

  // Writes the tools as a system message, for a template that does not support tools.
  void write_tools() {
    if (conversation_.tools.empty()) return;
    std::string text = "# Tools\n<tools>\n";
    for (const ToolSpec& tool : conversation_.tools) {
      const json::value* function = tool.shown.if_contains("function");
      text.append(json::serialize(function != nullptr ? *function : json::value(tool.shown))).push_back('\n');
    }
    text.append("</tools>");
    if (!traits_.tool_calls)
      text.append("\nTo call one: <tool_call>\n{\"name\": \"...\", \"arguments\": {...}}\n</tool_call>");
    conversation_.tools.clear();
    const auto place = std::ranges::find_if_not(messages_, is_system);
    messages_.insert(place, {.role = "system", .content = Content::of(std::move(text))});
  }

  // ---- calls and their results ----

  // True for consecutive assistant messages that must be merged. A call waits for its result: assistant
  // messages in between belong to the same turn.
  bool is_one_turn(const ChatMessage& before, const ChatMessage& message) const {
    if (message.role != "assistant" || before.role != "assistant") return false;
    return !before.tool_calls.empty() || !traits_.assistant_pairs ||
           (!message.tool_calls.empty() && !traits_.calls_behind_text);
  }

  void unite() {
    Messages out;
    for (ChatMessage& message : messages_) {
      if (!out.empty() && is_one_turn(out.back(), message))
        join(out.back(), std::move(message));
      else
        out.push_back(std::move(message));
    }
    messages_ = std::move(out);
  }

  void ids() {
    using Ids = TemplateTraits::CallIds;
    if (traits_.call_ids == Ids::any) return;
    std::map<std::string, std::string, std::less<>> new_ids;
    std::size_t index = 0;
    for (ChatMessage& message : messages_) {
      for (ToolCall& call : message.tool_calls) {
        json::value& id = call.shown["id"];
        const std::string old = id.is_string() ? std::string(id.as_string()) : std::string();
        const json::value& name = call.function()["name"];
        std::string made = traits_.call_ids == Ids::nine_letters || !name.is_string()
                               ? short_call_id(old)
                               : concat("functions.", std::string_view(name.as_string()), ":", index);
        ++index;
        id = made;
        new_ids[old] = std::move(made);
      }
      if (!message.tool_call_id) continue;
      if (const auto found = new_ids.find(*message.tool_call_id); found != new_ids.end())
        message.tool_call_id = found->second;
      else if (traits_.call_ids == Ids::nine_letters)
        message.tool_call_id = short_call_id(*message.tool_call_id);
    }
  }

  void calls() {
    Messages out;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      ChatMessage message = std::move(messages_[i]);
      for (ToolCall& call : message.tool_calls) set_arguments(call);
      if (message.tool_calls.empty()) {
        out.push_back(is_result(message) ? as_result(std::move(message)) : std::move(message));
        continue;
      }
      std::string carried;
      if (!traits_.tool_calls)
        write_calls(message);
      else if (!traits_.calls_beside_text)
        carried = part_from_text(message, out);
      const std::size_t first = out.size();
      out.push_back(std::move(message));
      while (i + 1 < messages_.size() && is_result(messages_[i + 1])) {
        out.push_back(as_result(std::move(messages_[++i])));
        if (!carried.empty())
          out.back().content = Content::of(concat(std::exchange(carried, {}), out.back().content.joined()));
      }
      if (!carried.empty()) {  // no result follows
        out[first].content = Content::of(std::move(carried));
        write_calls(out[first]);
      }
      if (!traits_.calls_together && out[first].tool_calls.size() > 1) split_calls(out, first);
    }
    messages_ = std::move(out);
  }

  // Moves the text of a message with calls into a separate message, for a template that does not show text
  // beside calls. If consecutive assistant messages are not possible, returns the text, to be added to the
  // result that follows.
  std::string part_from_text(ChatMessage& message, Messages& out) const {
    std::string text = message.content.joined();
    if (text.empty()) return {};
    message.content = {};
    if (!traits_.calls_behind_text) return concat("<assistant>\n", text, "\n</assistant>\n");
    out.push_back({.role = message.role, .content = Content::of(std::move(text)), .name = message.name});
    return {};
  }

  void set_arguments(ToolCall& call) const {
    json::value& arguments = call.function()["arguments"];
    if (arguments.is_null()) arguments = json::object();
    if (arguments.is_object() && !traits_.object_arguments)
      arguments = call.arguments_text.empty() ? json::serialize(arguments) : call.arguments_text;
    else if (arguments.is_string() && !traits_.text_arguments)
      arguments = json::object();
  }

  // Writes calls as text, for a template that does not support calls.
  static void write_calls(ChatMessage& message) {
    std::string text = message.content.joined();
    for (ToolCall& call : message.tool_calls) {
      if (!text.empty()) text.push_back('\n');
      const json::object shown{{"name", call.function()["name"]},
                               {"arguments", call.function()["arguments"]}};
      text.append(concat("<tool_call>\n", json::serialize(shown), "\n</tool_call>"));
    }
    message.content = Content::of(std::move(text));
    message.tool_calls.clear();
  }

  ChatMessage as_result(ChatMessage message) const {
    if (traits_.tool_calls && traits_.tool.any()) return message;
    std::string text = concat("<tool_response>\n", message.content.joined(), "\n</tool_response>");
    return {.role = "user", .content = Content::of(std::move(text))};
  }

  // Splits calls into one message each, placed before the results that refer to them.
  static void split_calls(Messages& out, std::size_t first) {
    ChatMessage message = std::move(out[first]);
    Messages results(std::make_move_iterator(out.begin() + static_cast<std::ptrdiff_t>(first) + 1),
                     std::make_move_iterator(out.end()));
    out.resize(first);
    for (ToolCall& call : std::exchange(message.tool_calls, {})) {
      const json::value id = call.shown["id"];
      message.tool_calls = {std::move(call)};
      out.push_back(std::exchange(message, {.role = message.role}));
      for (ChatMessage& result : results)
        if (!result.role.empty() && id.is_string() && id.as_string() == result.tool_call_id.value_or(""))
          out.push_back(std::exchange(result, {}));
    }
    for (ChatMessage& result : results)
      if (!result.role.empty()) out.push_back(std::move(result));
  }

  // ---- system messages ----

  void system() {
    const auto end = std::ranges::find_if_not(messages_, is_system);
    const auto leading = static_cast<std::size_t>(end - messages_.begin());
    const bool developers =
        std::all_of(messages_.begin(), end, [](const ChatMessage& m) { return m.role == "developer"; });
    for (std::size_t i = 1; i < leading; ++i) join(messages_[0], std::move(messages_[i]));
    std::size_t kept = 0;  // leading messages that stay
    if (leading > 0) {
      if (!developers) messages_[0].role = "system";
      messages_.erase(messages_.begin() + 1, end);
      const bool alone = messages_.size() == 1 && !traits_.system_alone;
      kept = traits_.system.any() && !alone ? 1 : 0;
    }
    fold_from(kept);
  }

  bool stays(const ChatMessage& message) const {
    return message.role == "developer" ? traits_.developer_later : traits_.system_later;
  }

  // Moves system messages that the template does not show in place into the user's turns.
  void fold_from(std::size_t kept) {
    if (!traits_.system_later && traits_.developer_later)
      for (std::size_t i = 1; i < messages_.size(); ++i)
        if (messages_[i].role == "system") messages_[i].role = "developer";
    Messages out;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      ChatMessage message = std::move(messages_[i]);
      if (i < kept || !is_system(message) || (i > 0 && stays(message))) {
        out.push_back(std::move(message));
        continue;
      }
      while (i + 1 < messages_.size() && is_system(messages_[i + 1]))
        join(message, std::move(messages_[++i]));
      message.role = "user";
      message.content.be_text();
      if (i + 1 < messages_.size() && messages_[i + 1].role == "user") {
        message.name = messages_[i + 1].name;
        join(message, std::move(messages_[++i]));
      } else if (!out.empty() && out.back().role == "user") {
        join(out.back(), std::move(message));
        continue;
      }
      out.push_back(std::move(message));
    }
    messages_ = std::move(out);
  }

  // ---- turns of the user ----

  void turns() {
    Messages out;
    for (ChatMessage& message : messages_) {
      const bool beside = message.role == "user" && !out.empty();
      if (beside && ((out.back().role == "user" && !traits_.user_pairs) ||
                     (is_result(out.back()) && !traits_.user_after_tool)))
        join(out.back(), std::move(message));
      else
        out.push_back(std::move(message));
    }
    const auto first = std::ranges::find_if_not(out, is_system);
    if (!traits_.assistant_first && first != out.end() && first->role == "assistant")
      out.insert(first, {.role = "user", .content = Content::of("")});
    messages_ = std::move(out);
  }

  void set_form(ChatMessage& message) const {
    Content& content = message.content;
    const bool calls = !message.tool_calls.empty();
    if (calls && traits_.null_content && content.joined().empty()) {
      content = {};
      return;
    }
    content.be_text();
    const TemplateTraits::Forms& forms = traits_.of(message.role);
    if (content.form == Content::Form::parts && !forms.parts) content = Content::of(content.joined());
    if (content.form == Content::Form::text && !forms.text && forms.parts)
      content.form = Content::Form::parts;
  }

  Conversation& conversation_;
  Messages& messages_;
  const TemplateTraits& traits_;
};

}  // namespace

void normalise(Conversation& conversation, const TemplateTraits& traits) {
  Normaliser(conversation, traits).run();
}

}  // namespace pagoda
