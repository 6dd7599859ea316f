#include "text/chat_prompt.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace pagoda {
namespace {

namespace json = boost::json;

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

ChatTemplate parse(const char* source) {
  Result<ChatTemplate> parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed);
  return std::move(*parsed);
}

ChatInput input(std::string_view messages) {
  ChatInput result;
  result.messages = json::parse(messages).as_array();
  result.eos_token = "</s>";
  return result;
}

std::string text_of(const Result<RenderedText>& prompt) {
  return prompt ? prompt->text : prompt.error().param() + ": " + prompt.error().message();
}

std::string prompt_of(const char* source, ChatInput in) {
  const ChatTemplate chat_template = parse(source);
  return text_of(render_chat(&chat_template, std::move(in)));
}

constexpr std::string_view kParts =
    R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
constexpr std::string_view kText = R"([{"role": "user", "content": "hi"}])";

TEST(ChatPrompt, ContentTakesTheFormTheTemplateWants) {
  EXPECT_EQ(parse(kPlain).content_format(), ChatTemplate::ContentFormat::text);
  EXPECT_EQ(parse(kLoops).content_format(), ChatTemplate::ContentFormat::text_or_parts);
  EXPECT_EQ(parse(kOnlyLoops).content_format(), ChatTemplate::ContentFormat::parts_only);
  EXPECT_EQ(prompt_of(kPlain, input(kParts)), "[user]a\nb[go]");
  EXPECT_EQ(prompt_of(kPlain, input(kText)), "[user]hi[go]");
  EXPECT_EQ(prompt_of(kLoops, input(kParts)), "PaPb");
  EXPECT_EQ(prompt_of(kLoops, input(kText)), "Shi");
  EXPECT_EQ(prompt_of(kOnlyLoops, input(kParts)), "PaPb");
  EXPECT_EQ(prompt_of(kOnlyLoops, input(kText)), "Phi");
}

TEST(ChatPrompt, RefusesWhatIsNotText) {
  EXPECT_EQ(
      prompt_of(kPlain, input(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])")),
      "messages.0.content.0.type: 'messages.0.content.0.type' is 'image_url', but this model takes text "
      "only.");
  EXPECT_EQ(prompt_of(kPlain, input(R"([{"role": "user", "content": ["a"]}])")),
            "messages.0.content.0: 'messages.0.content.0' must be an object with a type.");
}

TEST(ChatPrompt, ContinuesTheLastMessage) {
  ChatInput in =
      input(R"([{"role": "user", "content": "x"}, {"role": "assistant", "content": "Once upon a "}])");
  in.continue_final_message = true;
  EXPECT_EQ(
      prompt_of(kPlain, in),
      "continue_final_message: 'continue_final_message' and 'add_generation_prompt' cannot both be true.");
  in.add_generation_prompt = false;
  EXPECT_EQ(prompt_of(kPlain, in), "[user]x[assistant]Once upon a ");
  EXPECT_EQ(prompt_of(kTrims, in), "[user]x</s>[assistant]Once upon a");
  EXPECT_TRUE(prompt_of("{{ messages[0].content }}", in).starts_with("continue_final_message: "));

  const ChatTemplate trims = parse(kTrims);
  const Result<RenderedText> prompt = render_chat(&trims, in);
  ASSERT_TRUE(prompt);
  ASSERT_FALSE(prompt->user_ranges.empty());
  EXPECT_EQ(prompt->user_ranges.back().end, prompt->text.size());

  ChatInput parts = input(R"([{"role": "assistant", "content": [{"type": "text", "text": "ab"}]}])");
  parts.continue_final_message = true;
  parts.add_generation_prompt = false;
  EXPECT_EQ(prompt_of(kPlain, parts), "[assistant]ab");
  EXPECT_EQ(prompt_of(kLoops, parts), "Pab");
  parts.messages[0].as_object()["content"] = nullptr;
  EXPECT_TRUE(prompt_of(kPlain, parts).starts_with("continue_final_message: "));
}

TEST(ChatPrompt, PassesKwargsButNoReservedNames) {
  ChatInput in = input(kText);
  in.template_kwargs["enable_thinking"] = false;
  EXPECT_EQ(prompt_of("{{ enable_thinking }}{{ tools is none }}", in), "FalseTrue");
  in.template_kwargs["messages"] = json::array();
  EXPECT_EQ(prompt_of(kPlain, in),
            "chat_template_kwargs.messages: 'chat_template_kwargs.messages' is a reserved name.");
}

TEST(ChatPrompt, GivesReasoningUnderTheNamesTemplatesRead) {
  EXPECT_EQ(prompt_of("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}",
                      input(R"([{"role": "assistant", "content": "", "reasoning": "r"}])")),
            "rr");
}

TEST(ChatPrompt, WithoutATemplateNamesTheFlag) {
  const Result<RenderedText> prompt = render_chat(nullptr, input(kText));
  ASSERT_FALSE(prompt);
  EXPECT_NE(prompt.error().message().find("--chat-template"), std::string::npos);
}

}  // namespace
}  // namespace pagoda
