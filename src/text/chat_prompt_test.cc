#include "text/chat_prompt.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr const char* kPlain =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[go]{% "
    "endif %}";
constexpr const char* kTrims =
    "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}{% endfor %}";
constexpr const char* kLoops =
    "{% for m in messages %}{% if m.content is string %}S{{ m.content }}{% else %}"
    "{% for part in m.content %}P{{ part.text }}{% endfor %}{% endif %}{% endfor %}";
constexpr const char* kOnlyLoops =
    "{% macro show(c) %}{% for part in c %}P{{ part['text'] }}{% endfor %}{% endmacro %}"
    "{% for m in messages %}{% set c = m['content'] %}{{ show(c) }}{% endfor %}";

ChatTemplate template_of(const char* source) {
  Result<ChatTemplate> parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed);
  return std::move(*parsed);
}

Conversation input(std::initializer_list<std::pair<const char*, Content>> messages) {
  Conversation result;
  for (const auto& [role, content] : messages) result.messages.push_back({.role = role, .content = content});
  return result;
}

Content parts_of(std::initializer_list<const char*> texts) {
  Content content{.form = Content::Form::parts, .parts = {}};
  for (const char* text : texts) content.parts.push_back({.text = text});
  return content;
}

const TemplateTokens kNoBos{.bos = "", .eos = "</s>"};

std::string shown(const Result<RenderedText>& prompt) {
  return prompt ? prompt->text : prompt.error().param() + ": " + prompt.error().message();
}

std::string prompt_from(const char* source, Conversation in) {
  const ChatTemplate chat_template = template_of(source);
  return shown(render_chat(&chat_template, std::move(in), kNoBos));
}

Conversation two_parts() { return input({{"user", parts_of({"a", "b"})}}); }
Conversation one_text() { return input({{"user", Content::of("hi")}}); }

TEST(ChatPrompt, ContentTakesTheFormTheTemplateWants) {
  EXPECT_EQ(prompt_from(kPlain, two_parts()), "[user]a\nb[go]");
  EXPECT_EQ(prompt_from(kPlain, one_text()), "[user]hi[go]");
  EXPECT_EQ(prompt_from(kLoops, two_parts()), "PaPb");
  EXPECT_EQ(prompt_from(kLoops, one_text()), "Shi");
  EXPECT_EQ(prompt_from(kOnlyLoops, two_parts()), "PaPb");
  EXPECT_EQ(prompt_from(kOnlyLoops, one_text()), "Phi");
}

TEST(ChatPrompt, ContinuesTheLastMessage) {
  Conversation in = input({{"user", Content::of("x")}, {"assistant", Content::of("Once upon a ")}});
  in.continue_final_message = true;
  EXPECT_EQ(
      prompt_from(kPlain, in),
      "continue_final_message: 'continue_final_message' and 'add_generation_prompt' cannot both be true.");
  in.add_generation_prompt = false;
  EXPECT_EQ(prompt_from(kPlain, in), "[user]x[assistant]Once upon a ");
  EXPECT_EQ(prompt_from(kTrims, in), "[user]x</s>[assistant]Once upon a");
  EXPECT_TRUE(prompt_from("{{ messages[0].content }}", in).starts_with("continue_final_message: "));

  const ChatTemplate trims = template_of(kTrims);
  const Result<RenderedText> prompt = render_chat(&trims, in, kNoBos);
  ASSERT_TRUE(prompt);
  ASSERT_FALSE(prompt->user_ranges.empty());
  EXPECT_EQ(prompt->user_ranges.back().end, prompt->text.size());

  Conversation parts = input({{"assistant", parts_of({"ab"})}});
  parts.continue_final_message = true;
  parts.add_generation_prompt = false;
  EXPECT_EQ(prompt_from(kPlain, parts), "[assistant]ab");
  EXPECT_EQ(prompt_from(kLoops, parts), "Pab");
  parts.messages[0].content = {};
  EXPECT_TRUE(prompt_from(kPlain, parts).starts_with("continue_final_message: "));
}

TEST(ChatPrompt, PassesKwargsButNoReservedNames) {
  Conversation in = one_text();
  in.template_kwargs["enable_thinking"] = false;
  EXPECT_EQ(prompt_from("{{ enable_thinking }}{{ tools is none }}", in), "FalseTrue");
  in.template_kwargs["messages"] = boost::json::array();
  EXPECT_EQ(prompt_from(kPlain, in),
            "chat_template_kwargs.messages: 'chat_template_kwargs.messages' is a reserved name.");
}

TEST(ChatPrompt, GivesReasoningUnderTheNamesTemplatesRead) {
  Conversation in = input({{"assistant", Content::of("")}});
  in.messages[0].reasoning = "r";
  EXPECT_EQ(prompt_from("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}", in), "rr");
}

// Conversations built from a protocol's fields read as those that transformers passes to a template.
TEST(ChatPrompt, ShowsToolsAndCallsInTheFormOfTransformers) {
  Conversation in = input({{"assistant", {}}});
  in.messages[0].tool_calls.push_back(ToolCall::of("c1", "add", {.object = {{"a", 1}}}));
  in.messages.push_back({.role = "tool", .content = Content::of("2"), .tool_call_id = "c1"});
  in.tools.push_back(ToolSpec::of("add", "Adds.", {{"type", "object"}}));
  EXPECT_EQ(prompt_from("{{ tools | tojson }}", in),
            R"([{"type": "function", "function": {"name": "add", "description": "Adds.", )"
            R"("parameters": {"type": "object"}}}])");
  in.tools.clear();
  EXPECT_EQ(prompt_from("{% for m in messages %}{{ m.content }}{% if m.tool_calls %}"
                        "{{ m.tool_calls[0].function | tojson }}{% else %}{{ m.tool_call_id }}{% endif %};"
                        "{% endfor %}",
                        in),
            R"({"name": "add", "arguments": {"a": 1}};2c1;)");
}

TEST(ChatPrompt, WithoutATemplateNamesTheFlag) {
  const Result<RenderedText> prompt = render_chat(nullptr, one_text(), kNoBos);
  ASSERT_FALSE(prompt);
  EXPECT_NE(prompt.error().message().find("--chat-template"), std::string::npos);
}

}  // namespace
}  // namespace pagoda
