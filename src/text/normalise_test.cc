#include "text/normalise.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "text/chat_prompt.h"
#include "text/conversation_shapes.h"
#include "text/template_samples.h"

namespace pagoda {
namespace {

const TemplateTokens kBosAndEos{.bos = "<s>", .eos = "</s>"};

ChatTemplate template_from(std::string_view source) {
  Result<ChatTemplate> parsed = ChatTemplate::parse(std::string(source));
  EXPECT_TRUE(parsed);
  return std::move(*parsed);
}

std::string prompt_in_shape(const ChatTemplate& chat_template, Conversation conversation) {
  const Result<RenderedText> prompt = render_chat(&chat_template, std::move(conversation), kBosAndEos);
  return prompt ? prompt->text : "error: " + prompt.error().message();
}
std::string prompt_in_shape(std::string_view source, Conversation conversation) {
  conversation.add_generation_prompt = false;
  return prompt_in_shape(template_from(source), std::move(conversation));
}
std::string prompt_in_shape(std::string_view source, ShapeBuilder shape) {
  return prompt_in_shape(source, shape.take().conversation);
}

// Every word of every shape is in the prompt, in the order of the messages.
void expect_nothing_lost(const ChatTemplate& chat_template) {
  for (const ConversationShape& shape : conversation_shapes()) {
    SCOPED_TRACE(shape.name);
    const std::string prompt = prompt_in_shape(chat_template, shape.conversation);
    EXPECT_FALSE(prompt.starts_with("error: ")) << prompt;
    std::size_t at = 0;
    for (const std::string& word : shape.words) {
      at = prompt.find(word, std::min(at, prompt.size()));
      EXPECT_NE(at, std::string::npos) << word << " in:\n" << prompt;
    }
    for (const std::string& word : shape.also) EXPECT_NE(prompt.find(word), std::string::npos) << prompt;
    EXPECT_EQ(prompt.find("None"), std::string::npos) << prompt;
    EXPECT_EQ(prompt.find("'text'"), std::string::npos) << prompt;
  }
}

TEST(Normalise, NothingThatClientsSayIsLost) {
  for (const TemplateSample& sample : template_samples()) {
    SCOPED_TRACE(sample.name);
    expect_nothing_lost(template_from(sample.source));
  }
}

TEST(Normalise, NothingIsLostByTheTemplatesOfRealModels) {
  std::ifstream file;
  if (const char* folder = std::getenv("PAGODA_SHARED_DATA"))
    file.open(std::string(folder) + "/conformance/chat_templates.json");
  if (!file.is_open()) GTEST_SKIP() << "shared test data not found (PAGODA_SHARED_DATA)";
  std::ostringstream content;
  content << file.rdbuf();
  const boost::json::value data = boost::json::parse(content.str());
  for (const auto& entry : data.at("templates").as_object()) {
    SCOPED_TRACE(std::string_view(entry.key()));
    expect_nothing_lost(template_from(std::string_view(entry.value().as_string())));
  }
}

// A turn's prompt is the beginning of all later ones, up to the model's own words.
TEST(Normalise, PromptsGrowAtTheirEnds) {
  for (const TemplateSample& sample : template_samples()) {
    const ChatTemplate chat_template = template_from(sample.source);
    for (const ConversationShape& shape : conversation_shapes()) {
      SCOPED_TRACE(std::string(sample.name) + ", " + std::string(shape.name));
      Conversation whole = shape.conversation;
      whole.add_generation_prompt = false;
      const std::string last = prompt_in_shape(chat_template, whole);
      bool asked = false;
      for (std::size_t i = 1; i < whole.messages.size(); ++i) {
        asked |= whole.messages[i - 1].role == "user";
        if (!asked || whole.messages[i].role != "assistant" || whole.messages[i - 1].role == "assistant")
          continue;
        Conversation before = whole;
        before.messages.resize(i);
        const std::string prompt = prompt_in_shape(chat_template, before);
        EXPECT_TRUE(last.starts_with(prompt)) << prompt << "\n---- is not the beginning of\n" << last;
      }
    }
  }
}

using Shape = ShapeBuilder;

TEST(Normalise, DeveloperIsSystemWhereTheTemplateDoesNotNameIt) {
  EXPECT_EQ(prompt_in_shape(kQwen3, Shape("").say("developer").say("user")),
            "<|im_start|>system\nword0q<|im_end|>\n<|im_start|>user\nword1q<|im_end|>\n");
  EXPECT_EQ(prompt_in_shape(kChatml, Shape("").say("developer").say("user")),
            "<|im_start|>system\nword0q<|im_end|>\n<|im_start|>user\nword1q<|im_end|>\n");
  EXPECT_EQ(
      prompt_in_shape("{% for m in messages %}{{ 'D' if m.role == 'developer' }}{{ m.content }};{% endfor %}",
                      Shape("").say("developer").say("user")),
      "Dword0q;word1q;");
}

TEST(Normalise, LeadingSystemMessagesAreOne) {
  for (const char* const second : {"system", "developer"})
    EXPECT_EQ(prompt_in_shape(kQwen35, Shape("").say("system").say(second).say("user")),
              "<|im_start|>system\nword0q\n\nword1q<|im_end|>\n<|im_start|>user\nword2q<|im_end|>\n");
}

TEST(Normalise, ALaterSystemMessageStaysInItsPlace) {
  // Shown where it stands.
  EXPECT_EQ(prompt_in_shape(kQwen3, Shape("").say("user").say("system").say("assistant")),
            "<|im_start|>user\nword0q<|im_end|>\n<|im_start|>system\nword1q<|im_end|>\n"
            "<|im_start|>assistant\nword2q<|im_end|>\n");
  // In the user's turn that it stands before, or behind.
  EXPECT_EQ(prompt_in_shape(kQwen35,
                            Shape("").say("user").say("assistant").say("system").say("system").say("user")),
            "<|im_start|>user\nword0q<|im_end|>\n<|im_start|>assistant\nword1q<|im_end|>\n"
            "<|im_start|>user\nword2q\n\nword3q\n\nword4q<|im_end|>\n");
  EXPECT_EQ(prompt_in_shape(kQwen35, Shape("").say("user").say("system").say("assistant")),
            "<|im_start|>user\nword0q\n\nword1q<|im_end|>\n<|im_start|>assistant\nword2q<|im_end|>\n");
  // In a turn of its own.
  EXPECT_EQ(prompt_in_shape(kQwen35, Shape("").say("user").say("assistant").say("system").say("assistant")),
            "<|im_start|>user\nword0q<|im_end|>\n<|im_start|>assistant\nword1q<|im_end|>\n"
            "<|im_start|>user\nword2q<|im_end|>\n<|im_start|>assistant\nword3q<|im_end|>\n");
  // A template that would move it to the front.
  EXPECT_EQ(prompt_in_shape(kDeepseek, Shape("").say("system").say("user").say("system")),
            "<s>word0q<|User|>word1q\n\nword2q");
}

TEST(Normalise, WithoutASystemRoleItIsThePartOfTheFirstUserTurn) {
  EXPECT_EQ(prompt_in_shape(kGemma, Shape("").parts("system").say("user").say("assistant").say("user")),
            "<s><start_of_turn>user\nword0q\nword1q\n\nword2q<end_of_turn>\n"
            "<start_of_turn>model\nword3q<end_of_turn>\n<start_of_turn>user\nword4q<end_of_turn>\n");
  EXPECT_EQ(prompt_in_shape(kQwen35, Shape("").say("system")), "<|im_start|>user\nword0q<|im_end|>\n");
}

TEST(Normalise, PartsAreJoinedWhereTheTemplateDoesNotPrintThemAll) {
  EXPECT_EQ(prompt_in_shape(kDevstral, Shape("").parts("system").parts("user").parts("assistant")),
            "[SYSTEM_PROMPT]word0q\nword1q[/SYSTEM_PROMPT][INST]word2qword3q[/INST]word4q\nword5q</s>");
  EXPECT_EQ(prompt_in_shape(kPartsOnly, Shape("").say("system").parts("user").say("assistant")),
            "[system]word0q[user]word1qword2q[assistant]word3q");
}

TEST(Normalise, NullContentIsNeverPrinted) {
  EXPECT_EQ(prompt_in_shape(kGlm, Shape("").say("user").call().result(true)),
            "[gMASK]<|user|>word0q<|assistant|><tool_call>look_up<arg_key>city</arg_key>"
            "<arg_value>argument0q</arg_value></tool_call><|observation|>word1q\nword2q");
  // Shown where there is no content alone, and then as the text that the client gave.
  Conversation typed = Shape("").say("user").call(true).take().conversation;
  typed.messages[1].tool_calls[0].set_arguments({.object = {{"a", 1}}, .text = "{ \"a\":1 }"});
  EXPECT_EQ(prompt_in_shape(kDeepseek, typed),
            "<s><|User|>word0q<|Assistant|>word1q<|end|><|Assistant|><|call|>look_up\n{ \"a\":1 }<|end|>");
}

TEST(Normalise, NeighboursOfOneRoleAreOneTurnWhereTurnsAlternate) {
  EXPECT_EQ(prompt_in_shape(kGemma, Shape("").say("user").say("user").say("assistant").say("assistant")),
            "<s><start_of_turn>user\nword0q\n\nword1q<end_of_turn>\n"
            "<start_of_turn>model\nword2q\n\nword3q<end_of_turn>\n");
  EXPECT_EQ(prompt_in_shape(kGemma, Shape("").say("assistant").say("user")),
            "<s><start_of_turn>user\n<end_of_turn>\n<start_of_turn>model\nword0q<end_of_turn>\n"
            "<start_of_turn>user\nword1q<end_of_turn>\n");
  EXPECT_EQ(prompt_in_shape(kChatml, Shape("").say("user").say("user")),
            "<|im_start|>user\nword0q<|im_end|>\n<|im_start|>user\nword1q<|im_end|>\n");
}

TEST(Normalise, WhatIsSaidBesideACallKeepsItsTurn) {
  const std::string called =
      "<|im_start|>user\nword0q<|im_end|>\n<|im_start|>assistant\nword1q\n<tool_call>\n"
      "{\"name\": \"look_up\", \"arguments\": {\"city\": \"argument0q\"}}\n</tool_call><|im_end|>\n"
      "<|im_start|>user\n<tool_response>\nword2q\n</tool_response><|im_end|>\n";
  EXPECT_EQ(prompt_in_shape(kQwen3, Shape("").say("user").call(true).result()), called);
  EXPECT_EQ(prompt_in_shape(kQwen3, Shape("").say("user").call().say("assistant").result()), called);
}

TEST(Normalise, CallsAreShownAsTheTemplateTakesThem) {
  EXPECT_EQ(prompt_in_shape(kLlama3, Shape("").say("user").call(true, 2).result().result()),
            "<s><|start_header_id|>user<|end_header_id|>word0q<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>word1q<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>look_up{\"city\": \"argument0q\"}<|eot_id|>"
            "<|start_header_id|>ipython<|end_header_id|>\"word2q\"<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>look_up{\"city\": \"argument1q\"}<|eot_id|>"
            "<|start_header_id|>ipython<|end_header_id|>\"word3q\"<|eot_id|>");
  EXPECT_EQ(
      prompt_in_shape(kKimi, Shape("").say("user").call().result().call().result()),
      "<|im_user|>word0q<|im_end|><|im_assistant|><|call|>functions.look_up:0<|argument|>"
      "{\"city\": \"argument0q\"}<|im_end|><|im_tool|>## Return of functions.look_up:0\nword1q<|im_end|>"
      "<|im_assistant|><|call|>functions.look_up:1<|argument|>{\"city\": \"argument1q\"}<|im_end|>"
      "<|im_tool|>## Return of functions.look_up:1\nword2q<|im_end|>");
  const std::string id = short_call_id("call_0");
  EXPECT_EQ(prompt_in_shape(kMistral, Shape("").say("system").say("user").call().result().say("user")),
            "<s>[INST]word0q\n\nword1q[/INST][TOOL_CALLS]{\"name\": \"look_up\", \"arguments\": {\"city\": "
            "\"argument0q\"}}" +
                id + "</s>[TOOL_RESULTS]word2q\n\nword3q" + id + "[/TOOL_RESULTS]");
  EXPECT_EQ(
      prompt_in_shape(kMistral, Shape("").say("user").call(true).result()),
      "<s>[INST]word0q[/INST][TOOL_CALLS]{\"name\": \"look_up\", \"arguments\": {\"city\": \"argument0q\"}}" +
          id + "</s>[TOOL_RESULTS]<assistant>\nword1q\n</assistant>\nword2q" + id + "[/TOOL_RESULTS]");
}

TEST(Normalise, ToolsOfATemplateThatKnowsNoneAreText) {
  const std::string prompt = prompt_in_shape(
      kGemma, Shape("").tool({{"description", "Looks up."}}).say("user").call().result().say("assistant"));
  EXPECT_TRUE(
      prompt.starts_with("<s><start_of_turn>user\n# Tools\n<tools>\n"
                         R"({"description":"Looks up.","name":"look_up"})"
                         "\n</tools>\n"))
      << prompt;
  EXPECT_TRUE(
      prompt.ends_with("\n\nword0q<end_of_turn>\n<start_of_turn>model\n<tool_call>\n"
                       R"({"name":"look_up","arguments":{"city":"argument0q"}})"
                       "\n</tool_call><end_of_turn>\n<start_of_turn>user\n<tool_response>\nword1q\n"
                       "</tool_response><end_of_turn>\n<start_of_turn>model\nword2q<end_of_turn>\n"))
      << prompt;
}

TEST(Normalise, ArgumentsThatAreNoObjectAreGivenAsTextOrNotAtAll) {
  const auto cut = [](std::string_view source) {
    return prompt_in_shape(source, Shape("").say("user").broken_call("{\"city\": \"Par"));
  };
  EXPECT_NE(cut(kQwen3).find("\"arguments\": {\"city\": \"Par}\n"), std::string::npos);
  EXPECT_NE(cut(kDeepseek).find("look_up\n{\"city\": \"Par<|end|>"), std::string::npos);
  EXPECT_NE(cut(kQwen35).find("<function=look_up></function>"), std::string::npos);
}

TEST(Normalise, ToolsGetWhatTheTemplateNeeds) {
  Shape tool("");
  tool.tool({{"parameters", {{"properties", {{"city", {{"type", "string"}}}}}}}}).say("user");
  EXPECT_TRUE(prompt_in_shape(kHermes, tool).starts_with("<tools>look_up:  city: </tools>"));
  EXPECT_TRUE(prompt_in_shape(kHarmony, Shape("").tool({}).say("user"))
                  .starts_with("<|start|>developer<|message|>\n// \ntype look_up<|end|>"));
  // And nothing that it does not.
  EXPECT_NE(prompt_in_shape(kQwen3, Shape("").tool({}).say("user"))
                .find(R"({"type": "function", "function": {"name": "look_up"}})"),
            std::string::npos);
}

// A template that shows no user, or takes its time, is rendered as it is.
TEST(Normalise, LeavesAloneWhatCannotBeFoundOut) {
  EXPECT_EQ(prompt_in_shape("{% for m in messages %}{% if m.role in ['query', 'developer'] %}{{ m.role }}:{{ "
                            "m.content }};{% endif %}{% endfor %}",
                            Shape("").say("query").say("document").say("developer")),
            "query:word0q;developer:word2q;");
  // It shows the last message alone.
  EXPECT_EQ(prompt_in_shape("{{ messages[-1].content }}", Shape("").tool({}).say("system").say("user")),
            "word1q");
  const ChatTemplate slow =
      template_from("{{ messages[0].content }}{% for i in range(200000) %}{{ '' }}{% endfor %}");
  EXPECT_TRUE(slow.traits().developer);
}

}  // namespace
}  // namespace pagoda
