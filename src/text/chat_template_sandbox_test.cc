// A template cannot take more than its share of steps, memory or stack, or reach the host.
#include <gtest/gtest.h>

#include "base/thread_cpu_clock.h"
#include "text/render_test_support.h"

namespace pagoda {
namespace {

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

// Each look at it takes a millisecond.
class TickingClock final : public Clock {
 public:
  TimeNs now() const override { return time_ += 1'000'000; }

 private:
  mutable TimeNs time_ = 0;
};

TEST(ChatTemplateSandbox, TimeIsBoundedWhateverAStepTakes) {
  TemplateOptions timed = options(true);
  timed.clock = std::make_shared<TickingClock>();
  timed.limits.max_time = 20'000'000;
  const auto message = [&timed](const char* source) {
    const auto prompt = ChatTemplate::parse(source, timed)->render({});
    return prompt ? std::string("no limit") : prompt.error().message();
  };
  const std::string late = "chat template: the template takes too long (line 1)";
  EXPECT_EQ(message("{% for i in range(50000) %}{% set x = i %}{% endfor %}"), late);
  EXPECT_EQ(message("{% set s = 'a' * 1000000 %}{% for i in range(50) %}{% set x = s|upper %}{% endfor %}"),
            late);
  EXPECT_EQ(message("{% for i in range(1000) %}{% set x = i %}{% endfor %}"), "no limit");
  // An attack that took 11 s.
  const auto own = ChatTemplate::parse(
      "{% set big = 'a' * 1000000 %}{% for i in range(90000) %}{% set x = big|upper %}{% endfor %}",
      timed_template_options());
  const ThreadCpuClock clock;
  const TimeNs begin = clock.now();
  EXPECT_FALSE(own->render({}));
  EXPECT_LT(clock.now() - begin, 400'000'000);
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

}  // namespace
}  // namespace pagoda
