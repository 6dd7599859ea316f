// Translates a pattern from Oniguruma's Ruby syntax to PCRE2's.
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace pagoda {
namespace {

#include "tokenizer/unicode_ranges.inc"

constexpr int kMaxRegexDepth = 50;

void append_hex(std::string& out, std::uint32_t c) {
  char buffer[16];
  out.append(buffer, static_cast<std::size_t>(std::snprintf(buffer, sizeof buffer, "\\x{%x}", c)));
}

std::string with_more(std::string base, std::span<const CodePointRange> more) {
  for (const CodePointRange& range : more) {
    append_hex(base, range.first);
    if (range.last != range.first) {
      base += '-';
      append_hex(base, range.last);
    }
  }
  return base;
}

// Class contents (without brackets) for a property; nullopt if the property is unknown.
std::optional<std::string> property_contents(std::string name) {
  std::erase_if(name, [](char c) { return c == ' ' || c == '_' || c == '-'; });
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  struct General {
    std::string_view short_name, long_name, pcre2;
    std::span<const CodePointRange> more;
  };
  static const std::array kGeneral = {
      General{"l", "letter", "\\p{L}", kMoreL},
      General{"n", "number", "\\p{N}", kMoreN},
      General{"m", "mark", "\\p{M}", kMoreM},
      General{"p", "punctuation", "\\p{P}", kMoreP},
      General{"s", "symbol", "\\p{S}", kMoreS},
      General{"lu", "uppercaseletter", "\\p{Lu}", kMoreLu},
      General{"ll", "lowercaseletter", "\\p{Ll}", kMoreLl},
      General{"lt", "titlecaseletter", "\\p{Lt}", {}},
      General{"lo", "otherletter", "\\p{Lo}", kMoreLo},
      General{"lm", "modifierletter", "\\p{Lm}", kMoreLm},
      General{"nd", "decimalnumber", "\\p{Nd}", kMoreDigit},
      General{"digit", "digit", "\\p{Nd}", kMoreDigit},
      General{"word", "word", "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}", kMoreWord},
      General{"space", "whitespace", "\\p{White_Space}", {}},
      General{"alpha", "alphabetic", "\\p{Alphabetic}", {}},
      General{"han", "han", "\\p{sc:Han}", kMoreHan},
      General{"any", "any", "\\p{Any}", {}},
  };
  for (const General& general : kGeneral)
    if (name == general.short_name || name == general.long_name)
      return with_more(std::string(general.pcre2), general.more);
  static constexpr std::string_view kTwoLetters[] = {"mn", "mc", "me", "nl", "no", "pc", "pd", "ps", "pe",
                                                     "pi", "pf", "po", "sm", "sc", "sk", "so", "zs", "zl",
                                                     "zp", "cc", "cf", "co", "cn", "cs", "z",  "c"};
  for (const std::string_view known : kTwoLetters) {
    if (name != known) continue;
    name[0] = static_cast<char>(name[0] - 32);
    return "\\p{" + name + "}";
  }
  // A script: PCRE2 would match script extensions by default; it reports unknown scripts.
  if (name.size() > 2) {
    name[0] = static_cast<char>(name[0] - 32);
    return "\\p{sc:" + name + "}";
  }
  return std::nullopt;
}

std::optional<std::string> posix_contents(std::string_view name) {
  if (name == "punct") {
    const auto p = property_contents("p"), s = property_contents("s");
    return *p + *s;
  }
  if (name == "alnum") return *property_contents("alpha") + *property_contents("nd");
  if (name == "xdigit") return "0-9a-fA-F";
  if (name == "lower") return "\\p{Lowercase}";
  if (name == "upper") return "\\p{Uppercase}";
  if (name == "cntrl") return "\\p{Cc}";
  if (name == "blank") return "\\t\\p{Zs}";
  if (name == "alpha" || name == "digit" || name == "space" || name == "word")
    return property_contents(std::string(name));
  return std::nullopt;
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size()) {
      if (Status status = step(); !status.ok()) return status;
    }
    return std::move(out_);
  }

 private:
  // Reads a property escape "\p{...}", "\P{...}", "\p{^...}" whose backslash is at at_; moves past it.
  Status read_property(std::string& contents, bool& negated) {
    negated = in_[at_ + 1] == 'P';
    at_ += 2;
    std::string name;
    if (at_ < in_.size() && in_[at_] == '{') {
      const std::size_t end = in_.find('}', at_);
      if (end == std::string_view::npos) return invalid_argument("regular expression: '}' is missing");
      name = in_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else if (at_ < in_.size()) {
      name = in_.substr(at_++, 1);
    }
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    const auto found = property_contents(name);
    if (!found) return unimplemented(concat("regular expression: property '", name, "' is not supported"));
    contents = *found;
    return ok_status();
  }

  Status step() {
    const char c = in_[at_];
    if (c == '\\') return escape();
    if (c == '[') {
      atom_ = out_.size();
      return char_class(0, out_);
    }
    if (c == '(') return open_group();
    if (c == ')') {
      if (!groups_.empty()) {
        atom_ = groups_.back();
        groups_.pop_back();
      }
      out_ += c;
      ++at_;
      return ok_status();
    }
    if (c == '{') return interval();
    if (c == '?' || c == '*' || c == '+') {
      out_ += c;
      ++at_;
      return ok_status();
    }
    atom_ = out_.size();
    const std::size_t length = utf8_length(c);
    out_ += in_.substr(at_, length);
    at_ += length;
    return ok_status();
  }

  Status open_group() {
    groups_.push_back(out_.size());
    out_ += '(';
    ++at_;
    if (at_ >= in_.size() || in_[at_] != '?') return ok_status();
    out_ += '?';
    ++at_;
    // Option letters: Ruby's m ("dot matches newline") is PCRE2's s.
    std::size_t end = at_;
    while (end < in_.size() && (in_[end] == 'i' || in_[end] == 'm' || in_[end] == 'x' || in_[end] == '-'))
      ++end;
    if (end < in_.size() && end > at_ && (in_[end] == ':' || in_[end] == ')')) {
      for (; at_ < end; ++at_) out_ += in_[at_] == 'm' ? 's' : in_[at_];
      if (in_[at_] == ')') {
        groups_.pop_back();
        out_ += ')';
        ++at_;
      }
    }
    return ok_status();
  }

  // {n,m}: a following '+' repeats it in Ruby, but makes it possessive in PCRE2.
  Status interval() {
    std::size_t end = at_ + 1;
    while (end < in_.size() && ((in_[end] >= '0' && in_[end] <= '9') || in_[end] == ',')) ++end;
    if (end == at_ + 1 || end >= in_.size() || in_[end] != '}') {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return ok_status();
    }
    std::string_view range = in_.substr(at_ + 1, end - at_ - 1);
    std::string written = range[0] == ',' ? concat("{0", range, "}") : concat("{", range, "}");
    at_ = end + 1;
    if (at_ < in_.size() && in_[at_] == '+') {
      out_.insert(atom_, "(?:");
      out_ += written + ")";
    } else {
      out_ += written;
    }
    return ok_status();
  }

  Status escape() {
    if (at_ + 1 >= in_.size()) return invalid_argument("regular expression: it ends with a backslash");
    const char c = in_[at_ + 1];
    atom_ = out_.size();
    if (c == 'p' || c == 'P') {
      std::string contents;
      bool negated = false;
      PAGODA_RETURN_IF_ERROR(read_property(contents, negated));
      out_ += (negated ? "[^" : "[") + contents + "]";
      return ok_status();
    }
    if (const auto contents = shorthand(c); !contents.empty()) {
      out_ += (c >= 'A' && c <= 'Z' ? "[^" : "[") + contents + "]";
      at_ += 2;
      return ok_status();
    }
    if (c == 'b' || c == 'B') {
      const std::string word = "[" + shorthand('w') + "]";
      const bool edge = c == 'b';
      out_ += "(?:(?<=" + word + ")(?" + (edge ? "!" : "=") + word + ")|(?<!" + word + ")(?" +
              (edge ? "=" : "!") + word + "))";
      at_ += 2;
      return ok_status();
    }
    return other_escape(out_);
  }

  // \s \d \w \h and their negations: the contents of the positive class.
  static std::string shorthand(char c) {
    switch (c) {
      case 's':
      case 'S':
        return *property_contents("space");
      case 'd':
      case 'D':
        return *property_contents("nd");
      case 'w':
      case 'W':
        return *property_contents("word");
      case 'h':
      case 'H':
        return "0-9a-fA-F";
      default:
        return {};
    }
  }

  // An escape that both engines interpret alike, except \uHHHH.
  Status other_escape(std::string& out) {
    const char c = in_[at_ + 1];
    if (c == 'u') {
      std::uint32_t value = 0;
      std::size_t digits = 0;
      while (digits < 4 && at_ + 2 + digits < in_.size()) {
        const char d = in_[at_ + 2 + digits];
        const int digit = d >= '0' && d <= '9'   ? d - '0'
                          : d >= 'a' && d <= 'f' ? d - 'a' + 10
                          : d >= 'A' && d <= 'F' ? d - 'A' + 10
                                                 : -1;
        if (digit < 0) break;
        value = value * 16 + static_cast<std::uint32_t>(digit);
        ++digits;
      }
      if (digits != 4) return invalid_argument("regular expression: \\u needs four hexadecimal digits");
      append_hex(out, value);
      at_ += 6;
      return ok_status();
    }
    if (c == 'C' || c == 'g' || c == 'k')
      return unimplemented(concat("regular expression: \\", c, " is not supported"));
    const std::size_t length = utf8_length(c);
    out += '\\';
    out += in_.substr(at_ + 1, length);
    at_ += 1 + length;
    return ok_status();
  }

  // A bracketed class with at_ on '['. Nested classes are alternatives, && is a look-ahead.
  Status char_class(int depth, std::string& out) {
    if (depth > kMaxRegexDepth) return invalid_argument("regular expression: classes are nested too deep");
    ++at_;
    bool negated = false;
    if (at_ < in_.size() && in_[at_] == '^') {
      negated = true;
      ++at_;
    }
    struct Operand {
      std::string contents;                   // contents of one plain class
      std::vector<std::string> alternatives;  // nested classes, each one complete
    };
    std::vector<Operand> operands(1);
    bool first = true;
    while (true) {
      if (at_ >= in_.size()) return invalid_argument("regular expression: ']' is missing");
      Operand& operand = operands.back();
      const char c = in_[at_];
      if (c == ']' && !first) {
        ++at_;
        break;
      }
      first = false;
      if (c == ']') {
        operand.contents += "\\]";
        ++at_;
      } else if (c == '[' && at_ + 1 < in_.size() && in_[at_ + 1] == ':') {
        const std::size_t end = in_.find(":]", at_);
        if (end == std::string_view::npos) return invalid_argument("regular expression: ':]' is missing");
        std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
        const bool inverted = !name.empty() && name[0] == '^';
        if (inverted) name.remove_prefix(1);
        const auto contents = posix_contents(name);
        if (!contents) return unimplemented(concat("regular expression: [:", name, ":] is not supported"));
        if (inverted)
          operand.alternatives.push_back("[^" + *contents + "]");
        else
          operand.contents += *contents;
        at_ = end + 2;
      } else if (c == '[') {
        std::string nested;
        PAGODA_RETURN_IF_ERROR(char_class(depth + 1, nested));
        operand.alternatives.push_back(std::move(nested));
      } else if (c == '&' && at_ + 1 < in_.size() && in_[at_ + 1] == '&') {
        operands.emplace_back();
        at_ += 2;
      } else if (c == '\\' && at_ + 1 < in_.size()) {
        const char e = in_[at_ + 1];
        if (e == 'p' || e == 'P') {
          std::string contents;
          bool inverted = false;
          PAGODA_RETURN_IF_ERROR(read_property(contents, inverted));
          if (inverted)
            operand.alternatives.push_back("[^" + contents + "]");
          else
            operand.contents += contents;
        } else if (const auto contents = shorthand(e); !contents.empty()) {
          if (e >= 'A' && e <= 'Z')
            operand.alternatives.push_back("[^" + contents + "]");
          else
            operand.contents += contents;
          at_ += 2;
        } else {
          PAGODA_RETURN_IF_ERROR(other_escape(operand.contents));
        }
      } else {
        const std::size_t length = utf8_length(c);
        operand.contents += in_.substr(at_, length);
        at_ += length;
      }
    }
    if (operands.size() == 1 && operands[0].alternatives.empty()) {
      out += (negated ? "[^" : "[") + operands[0].contents + "]";
      return ok_status();
    }
    std::string matching = "(?:";
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool last = i + 1 == operands.size();
      std::string one = "(?:";
      if (!operands[i].contents.empty()) one += "[" + operands[i].contents + "]";
      for (const std::string& alternative : operands[i].alternatives) {
        if (one.size() > 3) one += '|';
        one += alternative;
      }
      one += ')';
      matching += last ? one : "(?=" + one + ")";
    }
    matching += ')';
    out += negated ? "(?:(?!" + matching + ")(?s:.))" : matching;
    return ok_status();
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // start of the last atom in out_
  std::vector<std::size_t> groups_;  // starts of the open groups in out_
};

}  // namespace

Result<std::string> rewrite_for_pcre2(std::string_view pattern) { return Rewriter(pattern).run(); }

}  // namespace pagoda
