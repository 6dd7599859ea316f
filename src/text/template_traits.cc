#include "text/template_traits.h"

#include <boost/json/serialize.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_cpu_clock.h"
#include "text/chat_template.h"
#include "text/conversation.h"
#include "text/template_context.h"

namespace pagoda {
namespace {

namespace json = boost::json;
using Words = std::initializer_list<std::string_view>;

constexpr TimeNs kMaxTime = 200'000'000;
// Words that no template contains.
constexpr std::string_view kSystem = "qzsys", kUser = "qzusr", kAssistant = "qzast", kResult = "qzres";
constexpr std::string_view kLater = "qzlat", kNext = "qznxt", kTool = "qzfun", kArgument = "qzarg";
constexpr std::string_view kId = "qz0000001", kLongId = "call_qz000000001", kNamedId = "functions.qzfun:0";

class Prober {
 public:
  explicit Prober(const ChatTemplate& chat_template)
      : template_(chat_template),
        names_developer_(template_.source().find("developer") != std::string::npos) {}

  TemplateTraits run() {
    for (const bool empty : {false, true}) {
      if (empty && traits_.user.any()) break;
      traits_.empty_tools = empty;
      traits_.user = forms_of("user", {}, {});
    }
    if (!traits_.user.any() ||
        !has(prompt({say("user", kUser), say("assistant", kAssistant), say("user", kNext)}), {kUser, kNext}))
      return {};
    turns();
    system();
    tools();
    if (traits_.tool_calls) results();
    later();
    return out_of_time() ? TemplateTraits() : traits_;
  }

 private:
  using Messages = std::vector<ChatMessage>;

  bool out_of_time() const { return clock_.now() - begin_ > kMaxTime; }

  std::optional<std::string> prompt(Messages messages, std::vector<ToolSpec> tools = {}) const {
    if (out_of_time()) return std::nullopt;
    Conversation conversation;
    conversation.messages = std::move(messages);
    conversation.tools = std::move(tools);
    json::object context = template_context(std::move(conversation), {.bos = "<s>", .eos = "</s>"});
    if (traits_.empty_tools && context["tools"].is_null()) context["tools"] = json::array();
    Result<RenderedText> text = template_.render(context);
    if (!text) return std::nullopt;
    return std::move(text->text);
  }

  static bool has(const std::optional<std::string>& text, Words words) {
    if (!text) return false;
    for (const std::string_view word : words)
      if (text->find(word) == std::string::npos) return false;
    return true;
  }
  static std::size_t count(const std::optional<std::string>& text, std::string_view word) {
    std::size_t found = 0;
    for (std::size_t at = text ? text->find(word) : std::string::npos; at != std::string::npos;
         at = text->find(word, at + word.size()))
      ++found;
    return found;
  }
  // True if the words occur in this order: a message moved to the front would change the start of the prompt.
  static bool in_order(const std::optional<std::string>& text, Words words) {
    std::size_t from = 0;
    for (const std::string_view word : words) {
      from = text ? text->find(word, from) : std::string::npos;
      if (from == std::string::npos) return false;
    }
    return true;
  }

  // A message in the form that the template is known to accept.
  ChatMessage say(std::string_view role, std::string_view word) const {
    Content content = Content::of(std::string(word));
    if (const auto& forms = traits_.of(role); !forms.text && forms.parts) content.form = Content::Form::parts;
    return {.role = std::string(role), .content = std::move(content)};
  }

  // Probes a message of `role` between `before` and `after`.
  TemplateTraits::Forms forms_of(std::string_view role, const Messages& before, const Messages& after,
                                 const std::vector<ToolSpec>& tools = {}) const {
    const auto render = [&](Content content) {
      Messages messages = before;
      messages.push_back({.role = std::string(role), .content = std::move(content)});
      if (role == "tool") messages.back().tool_call_id = id();
      messages.insert(messages.end(), after.begin(), after.end());
      return prompt(std::move(messages), tools);
    };
    // A template that prints the list itself shows its keys; one that uses only the first part loses the
    // second.
    const std::optional<std::string> parts =
        render({.form = Content::Form::parts, .parts = {{.text = "qzpt1"}, {.text = "qzpt2"}}});
    const bool shown = in_order(parts, {"qzpt1", "qzpt2"});
    const std::size_t first = shown ? parts->find("qzpt1") : 0;
    const bool printed =
        shown && parts->substr(first, parts->find("qzpt2", first) - first).find("text") != std::string::npos;
    return {.text = has(render(Content::of("qztxt")), {"qztxt"}), .parts = shown && !printed};
  }

  void turns() {
    const ChatMessage user = say("user", kUser), next = say("user", kNext);
    traits_.assistant = forms_of("assistant", {user}, {next});
    if (!traits_.assistant.any()) traits_.assistant = {};
    const ChatMessage answer = say("assistant", kAssistant), second = say("assistant", kLater);
    traits_.user_pairs = in_order(prompt({user, next}), {kUser, kNext}) &&
                         in_order(prompt({user, answer, next, say("user", kLater)}), {kNext, kLater});
    traits_.assistant_pairs = in_order(prompt({user, answer, second, next}), {kAssistant, kLater, kNext});
    traits_.assistant_first = in_order(prompt({answer, user}), {kAssistant, kUser});
  }

  void system() {
    const ChatMessage user = say("user", kUser), answer = say("assistant", kAssistant);
    traits_.system = forms_of("system", {}, {user});
    const ChatMessage system = say("system", kSystem);
    if (!has(prompt({system, user, answer, say("user", kNext)}), {kSystem, kUser, kNext}))
      traits_.system = {.text = false, .parts = false};
    traits_.system_alone = has(prompt({system}), {kSystem});
    const ChatMessage other{.role = "qzrole", .content = Content::of(std::string(kSystem))};
    traits_.other_roles =
        has(prompt({other, user}), {kSystem, kUser}) || has(prompt({user, other}), {kSystem});
    traits_.developer = names_developer_ && has(prompt({say("developer", kSystem), user}), {kSystem, kUser});
  }

  static ToolSpec tool() {
    const json::object property{{"type", "string"}, {"description", "qz"}};
    const json::object properties{{"qzkey", property}};
    return ToolSpec::of(kTool, "qz",
                        {{"type", "object"}, {"properties", properties}, {"required", json::array{"qzkey"}}});
  }
  // A tool with only these fields besides its name.
  static ToolSpec bare_tool(json::object function) {
    ToolSpec out = tool();
    function["name"] = kTool;
    out.shown["function"] = std::move(function);
    return out;
  }

  ToolCall call(std::string_view argument, json::value arguments) const {
    ToolCall out = ToolCall::of(id(), kTool, {});
    if (arguments.is_null()) arguments = json::object{{"qzkey", argument}};
    out.function()["arguments"] = std::move(arguments);
    return out;
  }
  ChatMessage calling(Content content, std::vector<ToolCall> calls) const {
    return {.role = "assistant", .content = std::move(content), .tool_calls = std::move(calls)};
  }
  Content no_content() const { return traits_.null_content ? Content() : say("assistant", "").content; }
  // A call in the form that the template was found to show.
  ToolCall good_call(std::string_view argument = kArgument) const {
    if (traits_.object_arguments) return call(argument, nullptr);
    return call(argument, json::value(json::serialize(json::object{{"qzkey", argument}})));
  }

  void tools() {
    const ChatMessage user = say("user", kUser);
    traits_.tools = has(prompt({user}, {tool()}), {kTool, kUser});
    if (traits_.tools) {
      declared_ = {tool()};
      const json::object& function = declared_[0].shown["function"].as_object();
      const auto fails = [&](json::object fields) {
        return !has(prompt({user}, {bare_tool(std::move(fields))}), {kTool, kUser});
      };
      traits_.needs_description = fails({{"parameters", function.at("parameters")}});
      traits_.needs_parameters =
          fails({{"description", "qz"}}) || fails({{"description", "qz"}, {"parameters", json::object()}});
      json::object bare = function.at("parameters").as_object();
      bare["properties"].as_object()["qzkey"].as_object().erase("description");
      traits_.needs_property_descriptions = fails({{"description", "qz"}, {"parameters", bare}});
    }
    find_calls();
  }

  void find_calls() {
    const ChatMessage user = say("user", kUser);
    using Ids = TemplateTraits::CallIds;
    const std::size_t declared = count(prompt({user}, declared_), kTool);
    const auto shows = [&](const Messages& messages) {
      const std::optional<std::string> text = prompt(messages, declared_);
      return has(text, {kUser, kArgument}) && count(text, kTool) > declared;
    };
    traits_.tool_calls = false;
    for (const Ids ids : {Ids::any, Ids::function_and_index})
      for (const bool object : {true, false})
        for (const bool null : {false, true}) {
          if (traits_.tool_calls) return;
          traits_.call_ids = ids;
          traits_.object_arguments = object;
          traits_.null_content = null;
          const ChatMessage calls = calling(no_content(), {good_call()});
          traits_.tool_calls = shows({user, calls}) || shows({user, calls, result(kResult)});
        }
    if (traits_.tool_calls) return;
    traits_.call_ids = Ids::any;
    traits_.object_arguments = true;
    traits_.null_content = false;
  }

  std::string_view id() const {
    return traits_.call_ids == TemplateTraits::CallIds::function_and_index ? kNamedId : kId;
  }

  ChatMessage result(std::string_view word) const {
    ChatMessage out = say("tool", word);
    out.name = kTool;
    out.tool_call_id = id();
    return out;
  }

  // Probes what may stand beside and after a call.
  void results() {
    const ChatMessage user = say("user", kUser), one = calling(no_content(), {good_call()});
    traits_.tool = forms_of("tool", {user, one}, {}, declared_);
    const auto shown = [&](Messages messages, Words words) {
      messages.insert(messages.begin(), user);
      return has(prompt(std::move(messages), declared_), words);
    };
    traits_.text_arguments = shown({calling(no_content(), {call({}, json::value("qzraw"))})}, {"qzraw"});
    traits_.calls_together =
        shown({calling(no_content(), {good_call(), good_call(kLater)})}, {kTool, kArgument, kLater});
    const Content text = say("assistant", kAssistant).content;
    traits_.calls_beside_text = shown({calling(text, {good_call()})}, {kAssistant, kTool, kArgument});
    if (!traits_.tool.any()) return;
    const ChatMessage next = say("user", kNext), later = say("assistant", kLater);
    if (traits_.calls_beside_text)
      traits_.calls_beside_text =
          in_order(prompt({user, calling(text, {good_call()}), result(kResult), later, next}, declared_),
                   {kAssistant, kResult, kLater});
    traits_.calls_behind_text = shown({say("assistant", kAssistant), one, result(kResult), later, next},
                                      {kAssistant, kTool, kArgument, kResult, kLater, kNext});
    ChatMessage call = one, answer = result(kResult);
    call.tool_calls[0].shown["id"] = kLongId;
    answer.tool_call_id = kLongId;
    if (traits_.call_ids == TemplateTraits::CallIds::any && shown({one, result(kResult)}, {kResult}) &&
        !shown({call, answer}, {kResult}))
      traits_.call_ids = TemplateTraits::CallIds::nine_letters;
    traits_.user_after_tool = shown({one, result(kResult), say("user", kNext)}, {kResult, kNext});
    ChatMessage function = result(kResult);
    function.role = "function";
    traits_.function = shown({one, function}, {kResult});
    if (traits_.system.any() &&
        !has(prompt({say("system", kSystem), user, one, result(kResult)}, declared_), {kSystem, kResult}))
      traits_.system = {.text = false, .parts = false};
  }

  // True if a message of `role` is shown in place after any other message.
  bool later(std::string_view role) const {
    const ChatMessage user = say("user", kUser), answer = say("assistant", kAssistant);
    const ChatMessage late = say(role, kLater), next = say("user", kNext);
    const auto ordered = [&](Messages messages, Words words, const std::vector<ToolSpec>& tools = {}) {
      return in_order(prompt(messages, tools), words);
    };
    if (!ordered({user, late}, {kUser, kLater}) || !ordered({user, late, next}, {kUser, kLater, kNext}) ||
        !ordered({user, late, answer, next}, {kUser, kLater, kAssistant, kNext}) ||
        !ordered({user, answer, late, next}, {kUser, kAssistant, kLater, kNext}))
      return false;
    if (traits_.system.any() && !ordered({say("system", kSystem), user, answer, late, next},
                                         {kSystem, kUser, kAssistant, kLater, kNext}))
      return false;
    if (!traits_.tool_calls || !traits_.tool.any()) return true;
    return ordered({user, calling(no_content(), {good_call()}), result(kResult), late},
                   {kUser, kResult, kLater}, declared_);
  }

  void later() {
    traits_.system_later = traits_.system.any() && later("system");
    traits_.developer_later = traits_.developer && later("developer");
  }

  const ChatTemplate& template_;
  const bool names_developer_;
  const ThreadCpuClock clock_;
  const TimeNs begin_ = clock_.now();
  TemplateTraits traits_;
  std::vector<ToolSpec> declared_;  // for templates that show only calls of declared tools
};

}  // namespace

const TemplateTraits::Forms& TemplateTraits::of(std::string_view role) const {
  if (role == "system" || role == "developer") return system;
  if (role == "assistant") return assistant;
  if (role == "tool" || role == "function") return tool;
  return user;
}

TemplateTraits probe_template(const ChatTemplate& chat_template) { return Prober(chat_template).run(); }

}  // namespace pagoda
