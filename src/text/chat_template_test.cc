#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::int64_t kFrozenNow = 1752148800;  // 2025-07-10 12:00

TemplateOptions options(bool trim) {
  TemplateOptions result;
  result.trim_blocks = result.lstrip_blocks = trim;
  result.now_unix_seconds = kFrozenNow;
  return result;
}

Result<RenderedPrompt> render(const std::string& source, const json::object& context = {}, bool trim = true) {
  const Result<ChatTemplate> parsed = ChatTemplate::parse(source, options(trim));
  if (!parsed) return parsed.error();
  return parsed.value().render(context);
}

std::string text_of(const std::string& source, const json::object& context = {}) {
  const Result<RenderedPrompt> prompt = render(source, context);
  return prompt ? prompt->text : "error: " + prompt.error().message();
}

// The parts of the prompt that are the user's, each in angle brackets.
std::string marked(const std::string& source, const json::object& context) {
  const Result<RenderedPrompt> prompt = render(source, context);
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
    const Result<RenderedPrompt> prompt = render(source, context, test.at("trim").as_bool());
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
    const Result<RenderedPrompt> prompt =
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
    const Result<RenderedPrompt> prompt =
        render(std::string(test.at("template").as_string()), test.at("context").as_object(), false);
    ASSERT_TRUE(prompt) << prompt.error().message();
    EXPECT_EQ(prompt->text, std::string(test.at("expected").as_string()));
  }
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
  const Result<RenderedPrompt> prompt = render("{{ raise_exception('roles must alternate') }}");
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.error().message(), "roles must alternate");
  EXPECT_EQ(prompt.error().code(), StatusCode::invalid_argument);
}

TEST(ChatTemplate, ErrorsNameTheLine) {
  EXPECT_EQ(text_of("a\n{% if %}"),
            "error: chat template: Expected an expression, got end of statement block (line 2)");
  EXPECT_EQ(text_of("a\n\n{{ 1 / 0 }}"), "error: chat template: division by zero (line 3)");
}

bool is_refused(const std::string& source) { return text_of(source).starts_with("error: "); }

TEST(ChatTemplateSandbox, BoundsNesting) {
  const std::string n(100'000, '(');
  EXPECT_TRUE(is_refused("{{ " + n + "1" + std::string(100'000, ')') + " }}"));
  EXPECT_TRUE(is_refused("{{ " + std::string(100'000, '[')));
  EXPECT_TRUE(is_refused("{{ " + std::string(100'000, '-') + "1 }}"));
  std::string nots, ifs, sums = "1", attributes = "x", filters = "x", conditionals = "1";
  for (int i = 0; i < 50'000; ++i) {
    nots += "not ";
    ifs += "{% if 1 %}";
    sums += " + 1";
    attributes += ".a";
    filters += "|string";
    conditionals += " if 1 else 1";
  }
  for (const std::string& expression : {nots + "1", sums, attributes, filters, conditionals}) {
    EXPECT_TRUE(is_refused("{{ " + expression + " }}")) << expression.substr(0, 40);
  }
  EXPECT_TRUE(is_refused(ifs));
  EXPECT_EQ(text_of("{{ ((((((((((1)))))))))) }}{{ not not not true }}"), "1False");
}

TEST(ChatTemplateSandbox, BoundsWork) {
  for (const char* source : {
           "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
           "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
           "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
           "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
           "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
           "{% set ns = namespace(l=(1,)) %}{% for i in range(40) %}{% set ns.l = (ns.l, ns.l) %}{% endfor %}"
           "{{ {ns.l: 1} }}",
           "{% set ns = namespace(g=[1]) %}{% for i in range(9999) %}{% set ns.g = ns.g | map('string') %}{% "
           "endfor %}"
           "{{ ns.g | list }}",
           "{% set ns = namespace() %}{% set ns.n = ns %}{{ ns }}",
           "{{ 'x' * 99999999999 }}",
           "{{ [0] * 99999999999 }}",
           "{{ 'x' | center(99999999999) }}",
           "{{ '%99999999d' % 1 }}",
           "{{ '{:99999999}'.format(1) }}",
           "{{ 'a\n' * 9999 | indent(999999) }}",
           "{{ ('a' * 99999).replace('', 'a' * 99999) }}",
           "{{ range(99999999) }}",
           "{{ 9999999999 * 9999999999 }}",
           "{{ 2 ** 64 }}",
       }) {
    EXPECT_TRUE(is_refused(source)) << source;
  }
}

constexpr std::string_view kTooMuch = "chat template: the template takes too many steps (line 1)";

// In every round of a loop, with limits that one copy of the text a round reaches and the rounds do not.
std::string looped(const std::string& setup, const std::string& expression) {
  TemplateOptions small = options(true);
  small.limits.max_output_bytes = std::size_t{1} << 16;
  small.limits.max_steps = 100'000;
  const auto parsed = ChatTemplate::parse(
      setup + "{% for i in range(1000) %}{% set x = " + expression + " %}{% endfor %}", small);
  if (!parsed) return parsed.error().message();
  const auto prompt = parsed.value().render({});
  return prompt ? "no limit" : prompt.error().message();
}

TEST(ChatTemplateSandbox, ChargesForEveryCopyAndScanOfAText) {
  const std::string setup = "{% set s = 'a' * 60000 %}{% set d = {s: s} %}";
  for (const char* expression : {
           // Filters.
           "s|capitalize",
           "s|center(60001)",
           "s|e",
           "s|escape",
           "s|forceescape",
           "s|safe|e|string|safe|lower",
           "'%s'|format(s)",
           "'%(k)s'|format(k=s)",
           "s|indent",
           "''|indent(60000)",
           "''|indent(s, true)",
           "s|lower",
           "s|replace('b', '')",
           "'b'|replace('b', s)",
           "s|reverse",
           "s|safe",
           "[s]|string",
           "s|striptags",
           "s|title",
           "s|tojson",
           "[1, 1]|tojson(separators=(s, ':'))",
           "1|tojson(indent=60000)",
           "1|tojson(indent=s)",
           "s|trim",
           "'b'|trim(s)",
           "s|truncate(100)",
           "s|upper",
           "s|urlencode",
           "{'a': s}|urlencode",
           "s|wordcount",
           "s|wordwrap(40000)",
           "{'a': s}|xmlattr",
           "{s: 1}|xmlattr",
           "s|float",
           "s|int",
           "s|filesizeformat if false else s|first",
           "s|last",
           "s|list",
           "[s]|join",
           "['', '']|join(s)",
           "[s]|sort",
           "[{}]|sort(attribute=s)",
           "d|dictsort",
           "[s]|unique|list",
           "[s]|min",
           "[s, s]|max",
           "[{'k': s}]|groupby('k')",
           "[{}]|map(attribute=s)",
           "[{}]|map(attribute=s)|list",
           "[{}]|selectattr(s)|list",
           "[{}]|unique(attribute=s)",
           "[1]|map('string', **d)",
           "1|attr(s)",
           "s is lower",
           "s is upper",
           // Methods.
           "s.capitalize()",
           "s.casefold()",
           "s.center(60001)",
           "s.count('b')",
           "s.endswith(s)",
           "s.endswith('b', 1)",
           "s.expandtabs()",
           "('\t' * 60000).expandtabs(0)",
           "s.find('b')",
           "s.rfind('b')",
           "'{}'.format(s)",
           "'{:s}'.format(s)",
           "'{:.50000}'.format(s)",
           "'{!r}'.format(s)",
           "'{!a}'.format(s)",
           "'{:60000}'.format(1)",
           "'{k}'.format_map({'k': s})",
           "''.format_map(d)",
           "s.index('a')",
           "s.rindex('a')",
           "s.isalnum()",
           "s.isalpha()",
           "s.isascii()",
           "s.isdecimal()",
           "s.isdigit()",
           "s.isidentifier()",
           "s.islower()",
           "s.isnumeric()",
           "s.isprintable()",
           "s.isspace()",
           "s.istitle()",
           "s.isupper()",
           "s.join(['', ''])",
           "''.join([s])",
           "s.ljust(60001)",
           "s.lower()",
           "s.lstrip()",
           "s.lstrip('b')",
           "'b'.lstrip(s)",
           "s.partition('b')",
           "s.partition('a')",
           "s.removeprefix('a')",
           "s.removesuffix('a')",
           "s.replace('b', '')",
           "s.rjust(60001)",
           "s.rpartition('a')",
           "s.rsplit()",
           "s.rsplit(none, 1)",
           "s.rsplit('b')",
           "s.rstrip()",
           "s.split()",
           "s.split('b')",
           "s.splitlines()",
           "s.startswith(s)",
           "s.startswith('b', 1)",
           "s.startswith((s, s))",
           "s.strip()",
           "s.swapcase()",
           "s.title()",
           "s.upper()",
           "s.zfill(60001)",
           // The rest of the language.
           "s ~ ''",
           "s + 'a'",
           "s * 1",
           "s[1:]",
           "s[::2]",
           "s == s",
           "s < s",
           "'b' in s",
           "'%s' % s",
           "1[s]",
           "dict(**d)",
           "strftime_now('a' * 3000)",
       }) {
    EXPECT_EQ(looped(setup, expression), kTooMuch) << expression;
  }
}

TEST(ChatTemplateSandbox, ChargesForTheKeysItHashes) {
  const std::string setup = "{% set s = 'a' * 60000 %}{% set d = {s: 1} %}{% set other = {s: 1} %}";
  for (const char* expression : {
           "s in {}",
           "s in {}.keys()",
           "(1, (s,)) in {}",
           "d[s]",
           "d.get(s)",
           "{}.fromkeys([s])",
           "{s: 1}",
           "dict(d)",
           "dict([[s, 1]])",
           "namespace(d)",
           "d == other",
           "d.keys() == other.keys()",
           "[d]|map(attribute=s)|list",
           "[s]|unique(true)|list",
           "s is filter",
           "s is test",
       }) {
    EXPECT_EQ(looped(setup, expression), kTooMuch) << expression;
  }
}

TEST(ChatTemplateSandbox, BoundsTheMemoryOfTheTextsKept) {
  EXPECT_EQ(text_of("{% set s = 'a' * 4194304 %}{{ ([s] * 100000) | map('safe') | list | length }}"),
            "error: " + std::string(kTooMuch));
}

TEST(ChatTemplateSandbox, CountsTheRoundsOfEveryLoop) {
  EXPECT_EQ(looped("{% set c = cycler(*range(5000)) %}", "c.items"), kTooMuch);
  EXPECT_EQ(looped("{% set r = range(5000) %}", "r|sum"), kTooMuch);
  std::string pairs;
  for (int i = 0; i < 500; ++i) pairs += "'k" + std::to_string(i) + "': none, ";
  const std::string setup = "{% set d = {" + pairs + "} %}";
  EXPECT_EQ(looped(setup, "d|xmlattr"), kTooMuch);
  EXPECT_EQ(looped(setup, "[1]|map('string', **d)"), kTooMuch);
  EXPECT_EQ(looped(setup, "'{k1}{k1}'.format_map(d)"), kTooMuch);
}

TEST(ChatTemplateSandbox, FreesChainsAndCycles) {  // for the leak checker, and for the stack
  EXPECT_EQ(text_of("{% set ns = namespace(p=none) %}{% for i in range(50000) %}"
                    "{% set ns.p = namespace(p=ns.p) %}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(text_of("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}"
                    "{% macro m() %}{% endmacro %}{% set a.m = m %}{% set a.c = cycler(a, b) %}"
                    "{% for x in [1] %}{% set a.loop = loop %}{{ loop.changed(loop) }}{% endfor %}ok"),
            "Trueok");
}

// `body` 200,000 times, then `after`.
std::string often(const std::string& body, const std::string& after = "") {
  TemplateOptions patient = options(true);
  patient.limits.max_steps = 50'000'000;
  const auto parsed = ChatTemplate::parse(
      "{% set ns = namespace(g=0) %}{% for j in range(2) %}"
      "{% for i in range(100000) %}" +
          body + "{% endfor %}{% endfor %}" + after,
      patient);
  if (!parsed) return parsed.error().message();
  const auto prompt = parsed.value().render({});
  return prompt ? prompt->text : prompt.error().message();
}

TEST(ChatTemplateSandbox, CountsWhatIteratorsHoldAsNested) {
  for (const char* made : {
           "[1]|map('default', ns.g)",
           "[1]|map('default', default_value=ns.g)",
           "[1]|map(attribute='a', default=ns.g)",
           "[1]|map(attribute=ns.g)",
           "[1]|select('in', ns.g)",
           "[1]|reject('in', seq=ns.g)",
           "[1]|selectattr(0, 'in', ns.g)",
           "[1]|rejectattr(ns.g)",
           "[1]|unique(attribute=ns.g)",
           "[1]|batch(1, ns.g)",
           "[1]|batch(ns.g)",
           "[1]|slice(1, ns.g)",
           "ns.g|items",
           "[ns.g]|reverse",
           "{1: ns.g}.values()",
           "[ns.g].index",
       }) {
    EXPECT_EQ(often("{% set ns.g = " + std::string(made) + " %}", "{{ ns.g | list }}"),
              "chat template: a value is nested too deeply (line 1)")
        << made;
  }
}

TEST(ChatTemplateSandbox, FreesWhatIteratorsGather) {  // for the leak checker, and for the stack
  for (const char* made : {"unique", "batch(1)", "slice(1)"}) {
    const std::string itself = "{% set g = [ns] | map(attribute='g') | " + std::string(made) + " %}";
    EXPECT_EQ(often(itself + "{% set x = g | first %}{% set ns.g = (g,) %}", "ok"), "ok") << made;
    EXPECT_EQ(
        text_of("{% set ns = namespace() %}" + itself + "{% set ns.g = (g,) %}{% set x = g | first %}ok"),
        "ok");
  }
}

TEST(ChatTemplateSandbox, BoundsIteratorsThatReadThemselves) {
  for (const char* reader : {"map('first')", "map('sum')", "select|select|select|map('join')|select"}) {
    const std::string source =
        "{% set ns = namespace() %}{% set ns.g = ([ns] * 100000) | map(attribute='g') | " +
        std::string(reader);
    EXPECT_EQ(text_of(source + " %}{{ ns.g | first }}"),
              "error: chat template: the template is nested too deeply (line 1)");
  }
}

TEST(ChatTemplateSandbox, ReachesNoHost) {
  EXPECT_EQ(text_of("{{ ''.__class__ }}"), "");
  EXPECT_TRUE(is_refused("{{ ''.__class__.__mro__ }}"));
  EXPECT_TRUE(is_refused("{{ [].append(1) }}"));
  EXPECT_TRUE(is_refused("{{ {}.update({}) }}"));
  EXPECT_TRUE(is_refused("{% include '/etc/passwd' %}"));
  EXPECT_TRUE(is_refused("{{ [1, 2] | random }}"));
}

TEST(ChatTemplate, MalformedTextInTheTemplateIsHarmless) {
  EXPECT_EQ(text_of("\xff{{ '\xc3' | upper | length }}"),
            "\xff"
            "1");
  EXPECT_TRUE(is_refused("{{ \xff }}"));
}

}  // namespace
}  // namespace pagoda
