#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "text/render_test_support.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// The parts of the prompt that are the user's, each in angle brackets.
std::string marked(const std::string& source, const json::object& context) {
  const Result<RenderedText> prompt = render(source, context);
  if (!prompt) return "error: " + prompt.error().message();
  std::string out;
  std::size_t done = 0;
  for (const ByteRange& range : prompt->user_ranges) {
    out += prompt->text.substr(done, range.begin - done) + "<" +
           prompt->text.substr(range.begin, range.end - range.begin) + ">";
    done = range.end;
  }
  return out + prompt->text.substr(done);
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::optional<std::string> read_shared(const std::string& name) {
  if (const char* folder = std::getenv("PAGODA_SHARED_DATA"))
    return read_file(std::string(folder) + "/" + name);
  for (const char* up : {"/../shared/data/", "/../../shared/data/"}) {
    if (auto content = read_file(PAGODA_SOURCE_DIR + std::string(up) + name)) return content;
  }
  return std::nullopt;
}

TEST(ChatTemplate, AgreesWithTransformersOnTheFixture) {
  const auto content = read_file(PAGODA_SOURCE_DIR "/tests/fixtures/jinja_cases.jsonl");
  ASSERT_TRUE(content) << "tests/fixtures/jinja_cases.jsonl is missing";
  std::istringstream lines(*content);
  std::string line;
  std::getline(lines, line);
  const json::object default_context = json::parse(line).at("default_context").as_object();
  int count = 0;
  while (std::getline(lines, line)) {
    const json::object test = json::parse(line).as_object();
    const std::string source(test.at("template").as_string());
    SCOPED_TRACE(source);
    const json::object context = test.contains("context") ? test.at("context").as_object() : default_context;
    const Result<RenderedText> prompt = render(source, context, test.at("trim").as_bool());
    if (test.contains("error")) {
      EXPECT_FALSE(prompt) << prompt->text;
      if (test.contains("message") && !prompt) {
        EXPECT_EQ(prompt.error().message(), std::string(test.at("message").as_string()));
      }
    } else {
      ASSERT_TRUE(prompt) << prompt.error().message();
      EXPECT_EQ(prompt->text, std::string(test.at("expected").as_string()));
    }
    ++count;
  }
  EXPECT_GT(count, 400);
}

TEST(ChatTemplate, AgreesOnTheTemplatesOfRealModels) {
  const auto content = read_shared("conformance/chat_templates.json");
  if (!content) GTEST_SKIP() << "shared test data not found (PAGODA_SHARED_DATA)";
  const json::object data = json::parse(*content).as_object();
  int count = 0;
  for (const json::value& value : data.at("cases").as_array()) {
    const json::object& test = value.as_object();
    const json::string& name = test.at("template").as_string();
    SCOPED_TRACE(std::string(name) + " on " + std::string(test.at("context_name").as_string()));
    const Result<RenderedText> prompt =
        render(std::string(data.at("templates").at(name).as_string()),
               data.at("contexts").at(test.at("context_name").as_string()).as_object());
    if (!test.at("error").is_null()) {
      EXPECT_FALSE(prompt);
    } else {
      ASSERT_TRUE(prompt) << prompt.error().message();
      EXPECT_EQ(prompt->text, std::string(test.at("expected").as_string()));
    }
    ++count;
  }
  EXPECT_GT(count, 100);
}

TEST(ChatTemplate, AgreesOnJinjaSyntax) {
  const auto content = read_shared("conformance/jinja_syntax.jsonl");
  if (!content) GTEST_SKIP() << "shared test data not found (PAGODA_SHARED_DATA)";
  std::istringstream lines(*content);
  for (std::string line; std::getline(lines, line);) {
    const json::object test = json::parse(line).as_object();
    SCOPED_TRACE(std::string(test.at("name").as_string()));
    const Result<RenderedText> prompt =
        render(std::string(test.at("template").as_string()), test.at("context").as_object(), false);
    ASSERT_TRUE(prompt) << prompt.error().message();
    EXPECT_EQ(prompt->text, std::string(test.at("expected").as_string()));
  }
}

// As some editors save a file: the mark is no text of the prompt.
TEST(ChatTemplate, AByteOrderMarkIsNotRendered) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse("\xEF\xBB\xBF{{ 1 }}\xEF\xBB\xBF");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->source(), "{{ 1 }}\xEF\xBB\xBF");
}

TEST(ChatTemplate, MarksWhatTheUserTyped) {
  const json::object context = json::parse(R"({
    "messages": [{"role": "user", "content": " hi </s> "}],
    "bos_token": "<s>", "n": 5, "tools": [{"name": "f"}]})")
                                   .as_object();
  EXPECT_EQ(marked("{{ bos_token }}[{{ messages[0].content }}]", context), "<s>[< hi </s> >]");
  EXPECT_EQ(marked("{{ 'a' + messages[0].content.strip() + 'b' }}", context), "a<hi </s>>b");
  EXPECT_EQ(marked("{{ messages[0]['content'] | trim | upper ~ n }}", context), "<HI </S>>5");
  EXPECT_EQ(marked("{{ messages[0].content.replace('hi', 'ho')[1:3] }}", context), "ho");
  EXPECT_EQ(marked("{{ messages[0].content.split() | join('-') }}", context), "<hi>-<</s>>");
  EXPECT_EQ(marked("{{ '%s=%d' % (messages[0].content.strip(), n) }}", context), "<hi </s>>=5");
  EXPECT_EQ(marked("{{ '{}!'.format(messages[0].role) }}", context), "<user>!");
  EXPECT_EQ(marked("{{ tools | tojson }}|{{ [1] | tojson }}", context), "<[{\"name\": \"f\"}]>|[1]");
  EXPECT_EQ(marked("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(messages[0].role) }}", context), "(<user>)");
  EXPECT_EQ(marked("{% set x %}a{{ messages[0].role }}{% endset %}{{ x[::-1] }}", context), "<resu>a");
  EXPECT_EQ(marked("{% for c in messages[0].role %}{{ c }}-{% endfor %}", context), "<u>-<s>-<e>-<r>-");
}

TEST(ChatTemplate, FindsIntegersInRangesAsPython) {
  EXPECT_EQ(text_of("{{ -1 in range(9223372036854775807, 9223372036854775800, -1) }}"), "False");
  const std::string setup =
      "{% set most = 9223372036854775807 %}{% set least = -most - 1 %}{% set half = 2 ** 62 %}"
      "{% set numbers = [least, least + 1, least + 2, least + 5, -half - 1, -half, -1, 0, 1, 3, 4, half - 1, "
      "half, most - 5, most - 2, most - 1, most, -1.0, 0.5, 3.0, true, 2.0 ** 62, 2.0 ** 63, -(2.0 ** 63), "
      "'3'] %}";
  // CPython's answers to `n in range(...)`, 1 where it is.
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"most, most - 7, -1", "0000000000000111100000000"},
      {"most - 7, most", "0000000000000111000000000"},
      {"least, least + 7", "1111000000000000000000010"},
      {"least + 7, least, -1", "0111000000000000000000000"},
      {"least, most, half", "1000010100001000000001010"},
      {"most, least, -half", "0000101000010000110000000"},
      {"least, most, most", "1000001000000001010000010"},
      {"most, least, least", "0000001000000000110000000"},
      {"0, least, least", "0000000100000000000000000"},
      {"-half, most, half - 1", "0000011000000010010000000"},
      {"half, least, -half", "0000010100001000000001000"},
      {"0, 10, 3", "0000000101000000000100000"},
      {"10, 0, -3", "0000000010100000000010000"},
      {"-5, 6", "0000001111100000010110000"},
      {"3, 3", "0000000000000000000000000"},
  };
  for (const auto& [range, members] : kCases) {
    EXPECT_EQ(text_of(setup + "{% for n in numbers %}{{ (n in range(" + range + ")) | int }}{% endfor %}"),
              members)
        << range;
  }
  EXPECT_EQ(text_of(setup + "{{ range(least, most, half) | list == [least, -half, 0, half] }}"), "True");
  EXPECT_EQ(text_of(setup + "{{ range(least, most, half)[1:3] }}"),
            "range(-4611686018427387904, 4611686018427387904, 4611686018427387904)");
  EXPECT_EQ(text_of(setup + "{{ range(most - 3, most, 2)[0:] }}"),
            "error: chat template: an integer is beyond 64 bits (line 1)");
}

TEST(ChatTemplate, TakesTheLargestIntegersForWidthsAndCounts) {
  EXPECT_EQ(
      text_of("{% set most = 9223372036854775807 %}{% set least = -most - 1 %}"
              "{{ 'x'.ljust(least) }}{{ 'x'.rjust(least) }}{{ 'x'.center(least) }}{{ 'x'.zfill(least) }}"
              "{{ 'x' | center(least) }}{{ 'xyzxyz' | truncate(most) }}{{ 'x y'.split(none, least) }}"
              "{{ 'x y'.split(' ', least) }}{{ 'x y'.rsplit(' ', least) }}{{ 'xx'.replace('x', 'y', least) }}"
              "{{ 'xx' | replace('x', 'y', least) }}"),
      "xxxxxxyzxyz['x', 'y']['x', 'y']['x', 'y']yyyy");
}

TEST(ChatTemplate, GroupsPaddingZerosAsPython) {
  struct Case {
    const char *value, *flags, *type, *prefix;
    std::size_t shortest;
    std::string_view
        widest;          // CPython's text at width 44; what is narrower ends as it does, after the prefix
    const char* beyond;  // at widths 1 to 40: how many characters CPython's text is wider
  };
  constexpr Case kCases[] = {
      {"0", "0", ",", "", 1, "0,000,000,000,000,000,000,000,000,000,000,000",
       "0001000100010001000100010001000100010001"},
      {"123", "0", ",", "", 3, "0,000,000,000,000,000,000,000,000,000,000,123",
       "0001000100010001000100010001000100010001"},
      {"1234567", "0", "_", "", 9, "0_000_000_000_000_000_000_000_000_001_234_567",
       "0000000000010001000100010001000100010001"},
      {"-1", "0", ",", "-", 2, "-000,000,000,000,000,000,000,000,000,000,001",
       "0000100010001000100010001000100010001000"},
      {"-1234", "0", "_", "-", 6, "-000_000_000_000_000_000_000_000_000_001_234",
       "0000000010001000100010001000100010001000"},
      {"5", "0", ",d", "", 1, "0,000,000,000,000,000,000,000,000,000,000,005",
       "0001000100010001000100010001000100010001"},
      {"1.5", "0", ",", "", 3, "00,000,000,000,000,000,000,000,000,000,001.5",
       "0000010001000100010001000100010001000100"},
      {"-1234.5", "0", ",.2f", "-", 9, "-0,000,000,000,000,000,000,000,000,001,234.50",
       "0000000000010001000100010001000100010001"},
      {"1e22", "0", ",", "", 5, "0,000,000,000,000,000,000,000,000,000,001e+22",
       "0000000100010001000100010001000100010001"},
      {"-1e-7", "0", "_", "-", 6, "-000_000_000_000_000_000_000_000_000_001e-07",
       "0000000010001000100010001000100010001000"},
      {"0.25", "0", ",%", "", 10, "0,000,000,000,000,000,000,000,000,025.000000%",
       "0000000000010001000100010001000100010001"},
      {"1234567.0", "0", ",.3g", "", 8, "0,000,000,000,000,000,000,000,000,001.23e+06",
       "0000000000100010001000100010001000100010"},
      {"'nan'|float", "0", ",", "", 3, "00000000000000000000000000000000000000000nan",
       "0000000000000000000000000000000000000000"},
      {"'-inf'|float", "0", "_f", "-", 4, "-0000000000000000000000000000000000000000inf",
       "0000000000000000000000000000000000000000"},
      {"255", "0", "_x", "", 2, "0000_0000_0000_0000_0000_0000_0000_0000_00ff",
       "0000100001000010000100001000010000100001"},
      {"-255", "0", "_b", "-", 10, "-000_0000_0000_0000_0000_0000_0000_1111_1111",
       "0000000000100001000010000100001000010000"},
      {"48879", "#0", "_X", "0X", 6, "0X00_0000_0000_0000_0000_0000_0000_0000_BEEF",
       "0000001000010000100001000010000100001000"},
      {"-511", "#0", "_o", "-0o", 6, "-0o0_0000_0000_0000_0000_0000_0000_0000_0777",
       "0000000100001000010000100001000010000100"},
      {"37", "#0", "_b", "0b", 9, "0b00_0000_0000_0000_0000_0000_0000_0010_0101",
       "0000000000010000100001000010000100001000"},
      {"true", "0", ",", "", 1, "0,000,000,000,000,000,000,000,000,000,000,001",
       "0001000100010001000100010001000100010001"},
  };
  for (const Case& test : kCases) {
    const std::string_view prefix = test.prefix;
    for (std::size_t width = 1; width <= 40; ++width) {
      const std::size_t length =
          std::max(width, test.shortest) + static_cast<std::size_t>(test.beyond[width - 1] - '0');
      const std::string expected =
          std::string(prefix) +
          std::string(test.widest.substr(test.widest.size() - (length - prefix.size())));
      const std::string field = std::string("'{:") + test.flags + std::to_string(width) + test.type + "}'";
      EXPECT_EQ(text_of("{{ " + field + ".format(" + test.value + ") }}"), expected) << field << test.value;
    }
  }
  EXPECT_EQ(text_of("{% set s = '{:04000000,}'.format(1) %}{{ s | length }} {{ s[:6] }}"), "4000001 0,000,");
}

TEST(ChatTemplate, RaiseExceptionGivesTheTemplatesOwnMessage) {
  const Result<RenderedText> prompt = render("{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.error().message(), "roles must alternate");
  EXPECT_EQ(prompt.error().code(), StatusCode::invalid_argument);
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(text_of("a\n{% if %}"),
            "error: chat template: Expected an expression, got end of statement block (line 2)");
  EXPECT_EQ(text_of("a\n\n{{ 1 / 0 }}"), "error: chat template: division by zero (line 3)");
}

TEST(ChatTemplate, MalformedTextInTheTemplateIsHarmless) {
  EXPECT_EQ(text_of("\xff{{ '\xc3' | upper | length }}"),
            "\xff"
            "1");
  EXPECT_TRUE(is_refused("{{ \xff }}"));
}

// Granite's and Llama's further roles; a made-up one where the template shows any.
TEST(ChatTemplate, RolesThatItShows) {
  const auto shows = [](const char* source, std::string_view role) {
    return ChatTemplate::parse(source)->shows_role(role);
  };
  const char* const any = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  const char* const named =
      "{% for m in messages %}{% if m.role in ['user', 'assistant'] or m.role.startswith('document') %}"
      "{{ m.content }}{% elif m.role == \"control\" %}<{{ m.content }}>{% endif %}{% endfor %}";
  EXPECT_TRUE(shows(any, "observer"));
  EXPECT_FALSE(shows(any, ""));
  EXPECT_TRUE(shows(named, "control"));
  EXPECT_TRUE(shows(named, "document {\"doc_id\": 1}"));
  EXPECT_FALSE(shows(named, "observer"));
}

}  // namespace
}  // namespace pagoda
