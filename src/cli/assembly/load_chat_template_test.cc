// Goal: a model's chat templates are found wherever models bring them.
#include "cli/assembly/load_chat_template.h"

#include <gtest/gtest.h>

#include <map>

#include "cli/assembly/answer_format_names.h"
#include "loader/gguf.h"
#include "loader/test_gguf.h"

namespace pagoda {
namespace {

using Files = std::map<std::string, std::string, std::less<>>;

class FakeSource final : public ModelSource {
 public:
  explicit FakeSource(Files files) : files_(std::move(files)) {}
  explicit FakeSource(const GgufFile& gguf) : gguf_(&gguf) {}
  ModelFormat format() const override { return ModelFormat::hugging_face; }
  const TensorView* find(std::string_view) const override { return nullptr; }
  std::vector<std::string> tensor_names() const override { return {}; }
  const GgufFile* gguf() const override { return gguf_; }
  std::optional<std::string> side_file(std::string_view name) const override {
    const auto found = files_.find(name);
    return found == files_.end() ? std::nullopt : std::optional<std::string>(found->second);
  }
  const std::string& path() const override { return path_; }

 private:
  Files files_;
  const GgufFile* gguf_ = nullptr;
  std::string path_;
};

// The sources of the usual template and of the one for tools.
std::pair<std::string, std::string> found_in(const ModelSource& source) {
  const Result<ChatTemplates> found = load_chat_templates("", source);
  EXPECT_TRUE(found);
  const auto text = [](const auto& one) { return one == nullptr ? std::string() : one->source(); };
  return {text(found->usual), text(found->tool_use)};
}
std::pair<std::string, std::string> found_in(Files files) { return found_in(FakeSource(std::move(files))); }

using Pair = std::pair<std::string, std::string>;
constexpr const char* kList =
    R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})";

TEST(LoadChatTemplate, EveryPlaceOfAFolder) {
  const char* const one = R"({"chat_template": "D"})";
  EXPECT_EQ(found_in(Files{{"chat_template.jinja", "D"}}), Pair("D", ""));
  EXPECT_EQ(found_in(Files{{"tokenizer_config.json", one}}), Pair("D", ""));
  EXPECT_EQ(found_in(Files{{"chat_template.json", one}}), Pair("D", ""));
  EXPECT_EQ(found_in(Files{{"processor_config.json", one}}), Pair("D", ""));
  EXPECT_EQ(found_in(Files{{"tokenizer_config.json", kList}}), Pair("D", "T"));
  EXPECT_EQ(
      found_in(Files{{"tokenizer_config.json", R"({"chat_template": {"default": "D", "tool_use": "T"}})"}}),
      Pair("D", "T"));
  const char* const tekken = R"({"config": {"version": "v7"}})";
  EXPECT_NE(found_in(Files{{"tekken.json", tekken}}).first.find("[SYSTEM_PROMPT]"), std::string::npos);
  EXPECT_EQ(found_in(Files{{"tekken.json", tekken}, {"tokenizer.json", "{}"}}), Pair("", ""));
  EXPECT_EQ(found_in(Files{{"tekken.json", tekken}, {"chat_template.jinja", "D"}}), Pair("D", ""));
  EXPECT_EQ(found_in(Files{{"chat_template.jinja", "D"}, {"additional_chat_templates/tool_use.jinja", "T"}}),
            Pair("D", "T"));
  // As editors and Python write files.
  EXPECT_EQ(found_in(Files{{"chat_template.jinja",
                            "\xEF\xBB\xBF"
                            "D"}}),
            Pair("D", ""));
  EXPECT_EQ(found_in(Files{{"tokenizer_config.json", "\xEF\xBB\xBF{\"x\": NaN, \"chat_template\": \"D\",}"}}),
            Pair("D", ""));
  // The first place that has one.
  EXPECT_EQ(found_in(Files{{"chat_template.jinja", "J"}, {"tokenizer_config.json", kList}}), Pair("J", ""));
  EXPECT_EQ(found_in(Files{{"processor_config.json", "{}"}, {"tokenizer_config.json", one}}), Pair("D", ""));
  EXPECT_EQ(found_in(Files{{"tokenizer_config.json", R"({"chat_template": 5})"}}), Pair("", ""));
  EXPECT_EQ(found_in(Files{{"tokenizer_config.json", R"({"chat_template": [1, {"name": "default"}]})"}}),
            Pair("", ""));
  EXPECT_EQ(found_in(Files{{"chat_template.jinja", "{% if %}"}}), Pair("", ""));
}

TEST(LoadChatTemplate, GgufMetadata) {
  testing::GgufBuilder builder;
  builder.string("tokenizer.chat_template", "D").string("tokenizer.chat_template.tool_use", "T");
  const std::string bytes = builder.build();
  const Result<GgufFile> gguf = GgufFile::parse(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(gguf) << gguf.error().message();
  EXPECT_EQ(found_in(FakeSource(*gguf)), Pair("D", "T"));
  testing::GgufBuilder named;
  named.string("tokenizer.chat_template.chat", "C").string("tokenizer.chat_template.tool_use", "T");
  const std::string named_bytes = named.build();
  const Result<GgufFile> second = GgufFile::parse(std::as_bytes(std::span(named_bytes)));
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_EQ(found_in(FakeSource(*second)), Pair("C", "T")) << "the only one that is not for tools";
}

TEST(AnswerFormatNames, TheTemplateThatShowsToolsSaysHowCallsAreWritten) {
  const auto parser_of = [](Files files) {
    const Result<ChatTemplates> found = load_chat_templates("", FakeSource(std::move(files)));
    ApiContext api;
    EXPECT_TRUE(choose_answer_formats(EngineFlags(), *found, api).ok());
    return api.tool_parser;
  };
  const std::string plain = "{% for m in messages %}{{ m.role + m.content }}{% endfor %}";
  const std::string calls =
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<TOOLCALL>{{ c.function | "
      "tojson }}"
      "</TOOLCALL>{% endfor %}{% endfor %}";
  EXPECT_EQ(parser_of({{"chat_template.jinja", calls}}), "nemotron_json");
  EXPECT_EQ(parser_of({{"chat_template.jinja", plain}, {"additional_chat_templates/tool_use.jinja", calls}}),
            "nemotron_json");
  EXPECT_EQ(parser_of({{"chat_template.jinja", plain}}), "hermes");
  EXPECT_EQ(parser_of({}), "");
}

// --chat-template as vLLM and llama.cpp's server take it.
TEST(LoadChatTemplate, AFileATextANameOrChatml) {
  const FakeSource source(Files{{"chat_template.jinja", "D"},
                                {"additional_chat_templates/tool_use.jinja", "T"},
                                {"additional_chat_templates/rag.jinja", "R"}});
  const auto text_of = [&source](const std::string& chosen) {
    const Result<ChatTemplates> found = load_chat_templates(chosen, source);
    return found ? found->usual->source() : "error: " + std::string(found.error().message());
  };
  EXPECT_EQ(text_of("{{ messages[0].content }}"), "{{ messages[0].content }}");
  EXPECT_EQ(text_of("default"), "D");
  EXPECT_EQ(text_of("tool_use"), "T");
  EXPECT_EQ(text_of("rag"), "R");
  EXPECT_TRUE(text_of("chatml").starts_with("{% for message in messages %}<|im_start|>"));
  EXPECT_NE(text_of("llama3").find("cannot read 'llama3'"), std::string::npos);
}

TEST(LoadChatTemplate, TheOnlyOneIsTheDefault) {
  const char* const one = R"({"chat_template": [{"name": "chat", "template": "C"}]})";
  EXPECT_EQ(found_in(Files{{"tokenizer_config.json", one}}), Pair("C", ""));
  const char* const two =
      R"({"chat_template": [{"name": "chat", "template": "C"}, {"name": "rag", "template": "R"}]})";
  EXPECT_EQ(found_in(Files{{"tokenizer_config.json", two}}), Pair("", ""));
}

}  // namespace
}  // namespace pagoda
