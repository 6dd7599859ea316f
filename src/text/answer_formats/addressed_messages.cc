// Formats whose messages have a header that names the recipient:
// gpt-oss ("harmony")
//     <|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>
//   The recipient may also precede the channel; <|start|>assistant begins the next message. Channel analysis
//   is reasoning; final, and commentary without a recipient, is content. Parsed by token if tokens are
//   available.
// Muse Glimmer
//     to=f<|message|><atem:function_calls><atem:invoke name="f">…<|eom|>
//   to=self is reasoning, to=user is content.
// The prompt ends in the first header. A call's end marker may be missing, since it is the stop token.
#include <algorithm>
#include <utility>

#include "text/answer_formats/json_scanner.h"
#include "text/answer_formats/tag_calls.h"
#include "text/answer_formats/tool_format.h"

namespace pagoda::answer {
namespace {

enum class Kind { reasoning, content, call, other };

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kConstrain = "<|constrain|>";

// Returns "name" from " to=name " anywhere in a header.
std::string_view recipient_of(std::string_view header) {
  const std::size_t at = header.find("to=");
  if (at == std::string_view::npos) return {};
  const std::string_view rest = header.substr(at + 3);
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

class AddressedStage : public AnswerStage {
 public:
  AddressedStage(const ToolContext& context, bool tools_wanted, Markers header, Markers body)
      : context_(context),
        tools_wanted_(tools_wanted),
        header_markers_(std::move(header)),
        body_markers_(std::move(body)) {}

  const Markers& markers() const override { return in_header_ ? header_markers_ : body_markers_; }

  std::size_t on_text(std::string_view text) override {
    if (in_header_) {
      header_ += text;
    } else if (kind_ == Kind::call) {
      reported_ ? context_.out.call_arguments(text) : void(body_ += text);
    } else {
      emit(text);
    }
    return text.size();
  }

  void on_marker(std::string_view marker) override {
    if (in_header_) {
      if (marker == kMessage) return begin_message();
      if (marker == kStart) {  // the previous header had no message
        header_.clear();
        started_ = true;
        return;
      }
      const bool ends = contains(body_markers_, marker);
      if (ends) {
        end_header(marker);
      } else {
        header_ += marker;
      }
      return;
    }
    end_message();
    in_header_ = true;
    header_.clear();
    started_ = marker == kStart;
  }

  void on_end() override {
    if (in_header_)
      flush_header();
    else
      end_message();
  }

  bool uses_special(std::string_view token) const override {
    return any_holds(header_markers_, token) || any_holds(body_markers_, token);
  }

 protected:
  virtual Kind kind_of(std::string_view header) const = 0;
  virtual std::vector<WrittenCall> read_calls(std::string_view header, std::string_view body) const = 0;
  // The name of a call whose body consists of its arguments, so that a constrained call can be reported while
  // it is generated; otherwise empty.
  virtual std::string_view name_of(std::string_view) const { return {}; }
  const ToolContext& context() const { return context_; }

 private:
  void begin_message() {
    kind_ = kind_of(header_);
    if (kind_ == Kind::call && !tools_wanted_) kind_ = Kind::content;
    body_.clear();
    in_header_ = false;
    messages_begun_ = true;
    const std::string_view name = kind_ == Kind::call && context_.held ? name_of(header_) : "";
    reported_ = !name.empty();
    if (reported_) context_.out.call_begun(name, {});
    // Several messages of one kind become separate lines; the sink drops the newline if nothing follows.
    if (kind_ == Kind::content && std::exchange(content_begun_, true)) context_.out.content("\n");
    if (kind_ == Kind::reasoning && std::exchange(reasoning_begun_, true)) context_.out.reasoning("\n");
  }

  void emit(std::string_view text) {
    if (kind_ == Kind::content) context_.out.content(text);
    if (kind_ == Kind::reasoning) context_.out.reasoning(text);
  }

  void end_message() {
    if (kind_ != Kind::call) return;
    if (reported_) return context_.out.call_ended();
    const std::vector<WrittenCall> calls = read_calls(header_, body_);
    for (const WrittenCall& call : calls) context_.out.call(call);
    if (calls.empty()) context_.out.content(body_);
  }

  // A message that ends within its header: the model forgot <|message|>. Its text is never dropped.
  void end_header(std::string_view marker) {
    if (!messages_begun_) return flush_header();
    const bool says_something = header_.find(kChannel) != std::string::npos;
    if (says_something) {
      if (std::exchange(content_begun_, true)) context_.out.content("\n");
      if (started_) context_.out.content(kStart);
      context_.out.content(header_);
      context_.out.content(marker);
    }
    header_.clear();
  }

  // Text outside any message: part of a header, unless no message has begun at all; it is then content.
  void flush_header() {
    if (!messages_begun_) context_.out.content(header_);
    header_.clear();
  }

  ToolContext context_;
  bool tools_wanted_;
  Markers header_markers_, body_markers_;
  bool in_header_ = true;
  Kind kind_ = Kind::other;
  bool messages_begun_ = false, content_begun_ = false, reasoning_begun_ = false;
  bool reported_ = false;  // the call is reported while it is generated
  bool started_ = false;   // kStart precedes the header
  std::string header_;
  std::string body_;  // body of a call
};

class HarmonyStage final : public AddressedStage {
 public:
  HarmonyStage(const ToolContext& context, bool tools_wanted)
      : AddressedStage(context, tools_wanted,
                       {kStart, kMessage, kChannel, kConstrain, "<|end|>", "<|call|>", "<|return|>"},
                       {kStart, "<|end|>", "<|call|>", "<|return|>"}) {}
  bool by_token() const override { return true; }

 private:
  Kind kind_of(std::string_view header) const override {
    const std::string_view recipient = recipient_of(header);
    if (!recipient.empty()) {
      const std::string_view first = recipient.substr(0, recipient.find('.'));
      const bool built_in =
          first == "browser" || first == "python" || first == "container" || first == "assistant";
      return built_in ? Kind::other : Kind::call;
    }
    const std::size_t at = header.find(kChannel);
    if (at == std::string_view::npos) return Kind::content;
    std::string_view channel = trim(header.substr(at + kChannel.size()));
    channel = channel.substr(0, channel.find_first_of(" \t\r\n<"));
    return channel == "analysis" ? Kind::reasoning : Kind::content;
  }
  std::string_view name_of(std::string_view header) const override {
    std::string_view name = recipient_of(header);
    if (name.starts_with("functions.")) name.remove_prefix(10);
    return name;
  }
  std::vector<WrittenCall> read_calls(std::string_view header, std::string_view body) const override {
    const std::string_view name = name_of(header);
    if (name.empty()) return {};
    std::string arguments(trim(body));
    if (arguments.empty()) arguments = "{}";
    return {{.name = std::string(name), .arguments = std::move(arguments), .id = {}}};
  }
};

class MuseGlimmerStage final : public AddressedStage {
 public:
  MuseGlimmerStage(const ToolContext& context, bool tools_wanted)
      : AddressedStage(context, tools_wanted, {kStart, kMessage, "<|eom|>", "<|eot|>"},
                       {kStart, "<|eom|>", "<|eot|>"}) {}

 private:
  Kind kind_of(std::string_view header) const override {
    const std::string_view recipient = recipient_of(header);
    if (recipient == "self") return Kind::reasoning;
    return recipient.empty() || recipient == "user" ? Kind::content : Kind::call;
  }
  std::vector<WrittenCall> read_calls(std::string_view, std::string_view body) const override {
    constexpr std::string_view kOpen = "<atem:invoke name=";
    constexpr std::string_view kClose = "</atem:invoke>";
    std::vector<WrittenCall> calls;
    for (std::size_t at = body.find(kOpen); at != std::string_view::npos; at = body.find(kOpen, at)) {
      at += kOpen.size();
      const std::size_t end = body.find(kClose, at);
      const bool cut = end == std::string_view::npos;
      const auto call =
          read_atem(body.substr(at, cut ? end : end - at), {.tools = context().tools, .cut = cut});
      if (!call) return {};
      calls.push_back({.name = call->name, .arguments = dump_json(call->arguments), .id = {}});
    }
    return calls;
  }
};

}  // namespace

MessageFormat harmony_format() {
  return {.tool_parser = "openai",
          .reasoning_parsers = {"openai_gptoss", "gpt_oss"},
          .make = [](const ToolContext& context, bool tools, bool, std::optional<bool>)
              -> std::unique_ptr<AnswerStage> { return std::make_unique<HarmonyStage>(context, tools); },
          .template_signs = {"<|channel|>analysis"}};
}

MessageFormat muse_glimmer_format() {
  return {.tool_parser = "muse_glimmer",
          .reasoning_parsers = {"muse_glimmer"},
          .make = [](const ToolContext& context, bool tools, bool, std::optional<bool>)
              -> std::unique_ptr<AnswerStage> { return std::make_unique<MuseGlimmerStage>(context, tools); },
          .template_signs = {"<atem:function_calls>"}};
}

}  // namespace pagoda::answer
