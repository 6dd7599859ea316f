#include "load/chunk_facts.h"

#include <charconv>
#include <cstring>

namespace pagoda {
namespace {

constexpr int kMaxDepth = 64;

// Walks JSON text forward. After the first surprise ok() is false and nothing moves any more.
class Skimmer {
 public:
  explicit Skimmer(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool ok() const { return ok_; }
  bool at_end() {
    space();
    return at_ == end_;
  }

  // The first byte of the next value; 0 at the end.
  char peek() {
    space();
    return at_ == end_ ? '\0' : *at_;
  }

  // The raw text between a string's quotes.
  std::string_view string() {
    if (!take('"')) return {};
    const char* const start = at_;
    for (;;) {
      const auto* quote = static_cast<const char*>(std::memchr(at_, '"', std::size_t(end_ - at_)));
      if (quote == nullptr) return fail();
      // Escaped when an odd number of backslashes stands before it.
      const char* back = quote;
      while (back > start && back[-1] == '\\') --back;
      at_ = quote + 1;
      if ((quote - back) % 2 == 0) return {start, std::size_t(quote - start)};
    }
  }

  std::optional<std::int64_t> whole() {
    space();
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(at_, end_, value);
    if (error != std::errc() || (stop != end_ && (*stop == '.' || *stop == 'e' || *stop == 'E'))) {
      skip();
      return {};
    }
    at_ = stop;
    return value;
  }

  // Any value. Brackets are counted, not matched: what a server closes wrongly is no worse for being skipped.
  void skip() {
    int depth = 0;
    do {
      switch (peek()) {
        case '\0':
          fail();
          break;
        case '"':
          string();
          break;
        case '{':
        case '[':
          ++at_;
          if (++depth > kMaxDepth) fail();
          break;
        case '}':
        case ']':
          if (depth == 0) {
            fail();
            break;
          }
          ++at_;
          --depth;
          break;
        case ',':
        case ':':
          if (depth == 0) fail();
          ++at_;
          break;
        default:
          scalar();
      }
    } while (ok_ && depth > 0);
  }

  // member(name) must consume the value.
  template <class Member>
  void object(Member&& member) {
    if (!take('{') || (peek() == '}' && take('}'))) return;
    do {
      const std::string_view name = string();
      if (!take(':')) return;
      member(name);
    } while (ok_ && next('}'));
  }

  // element() must consume the value.
  template <class Element>
  void array(Element&& element) {
    if (!take('[') || (peek() == ']' && take(']'))) return;
    do {
      element();
    } while (ok_ && next(']'));
  }

 private:
  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  std::string_view fail() {
    ok_ = false;
    at_ = end_;
    return {};
  }

  bool take(char c) {
    if (!ok_ || peek() != c) {
      fail();
      return false;
    }
    ++at_;
    return true;
  }

  // After a member or element: true at ',', false at `close` (or on a surprise).
  bool next(char close) {
    const char c = peek();
    if (c != ',' && c != close) fail();
    if (!ok_) return false;
    ++at_;
    return c == ',';
  }

  void scalar() {  // a number, true, false or null: not checked further
    const char* const start = at_;
    while (at_ != end_ && ((*at_ >= '0' && *at_ <= '9') || (*at_ >= 'a' && *at_ <= 'z') || *at_ == '-' ||
                           *at_ == '+' || *at_ == '.' || *at_ == 'E'))
      ++at_;
    if (at_ == start) fail();
  }

  const char* at_;
  const char* end_;
  bool ok_ = true;
};

void scan_text(Skimmer& json, ChoiceFacts& choice) {
  if (json.peek() != '"') return json.skip();
  const std::string_view text = json.string();
  if (!text.empty()) choice.text = text;
}

enum class Level { choice, inner };  // inner: of a choice's delta or message, which has none of its own

void scan_choice(Skimmer& json, ChoiceFacts& choice, Level level = Level::choice) {
  json.object([&](std::string_view name) {
    if (name == "text" || name == "content" || name == "reasoning_content" || name == "reasoning" ||
        name == "thinking" || name == "partial_json") {
      scan_text(json, choice);
    } else if (level == Level::choice && (name == "delta" || name == "message") && json.peek() == '{') {
      scan_choice(json, choice, Level::inner);
    } else if (name == "index") {
      choice.index = json.whole().value_or(0);
    } else if (name == "token_ids" && json.peek() == '[') {
      choice.num_token_ids = 0;
      json.array([&] {
        json.skip();
        ++choice.num_token_ids;
      });
    } else if (name == "finish_reason") {
      choice.finished = json.peek() == '"';
      json.skip();
    } else {
      json.skip();
    }
  });
}

void scan_usage(Skimmer& json, ChunkFacts& facts) {
  json.object([&](std::string_view name) {
    if (name == "prompt_tokens")
      facts.prompt_tokens = json.whole();
    else if (name == "completion_tokens" || name == "output_tokens")
      facts.completion_tokens = json.whole();
    else if (name == "input_tokens" || name == "cache_read_input_tokens")  // Messages counts them apart
      facts.prompt_tokens = facts.prompt_tokens.value_or(0) + json.whole().value_or(0);
    else
      json.skip();
  });
}

void scan_error(Skimmer& json, ChunkFacts& facts) {
  facts.error.emplace();
  if (json.peek() == '"') {
    facts.error = unescape_json(json.string());
  } else if (json.peek() == '{') {
    json.object([&](std::string_view name) {
      if (name == "message" && json.peek() == '"')
        facts.error = unescape_json(json.string());
      else
        json.skip();
    });
  } else {
    const bool null = json.peek() == 'n';
    json.skip();
    if (null) facts.error.reset();
  }
}

// The text of a protocol without choices; a chunk without any is no token.
void add_choice(ChunkFacts& facts, const ChoiceFacts& choice) {
  if (!choice.text.empty()) facts.choices.push_back(choice);
}

bool ends_stream(std::string_view type) {
  return type == "message_stop" || type == "response.completed" || type == "response.incomplete";
}

// Of a chunk without `choices`.
void scan_other(Skimmer& json, std::string_view name, ChunkFacts& facts) {
  ChoiceFacts choice;
  if (name == "type" && json.peek() == '"') {
    facts.finished = facts.finished || ends_stream(json.string());
  } else if ((name == "delta" || name == "content" || name == "response") && json.peek() == '"') {
    scan_text(json, choice);
  } else if ((name == "delta" || name == "message") && json.peek() == '{') {
    scan_choice(json, choice, Level::inner);
  } else if (name == "response" && json.peek() == '{') {
    json.object([&](std::string_view member) {
      if (member == "usage" && json.peek() == '{')
        scan_usage(json, facts);
      else if (member == "error")
        scan_error(json, facts);
      else
        json.skip();
    });
  } else if (name == "done" || name == "stop") {
    facts.finished = facts.finished || json.peek() == 't';
    json.skip();
  } else if (name == "prompt_eval_count" || name == "tokens_evaluated") {
    facts.prompt_tokens = json.whole();
  } else if (name == "eval_count" || name == "tokens_predicted") {
    facts.completion_tokens = json.whole();
  } else {
    json.skip();
  }
  add_choice(facts, choice);
}

void append_utf8(std::string& out, unsigned code) {
  if (code < 0x80) {
    out.push_back(char(code));
  } else if (code < 0x800) {
    out.push_back(char(0xC0 | code >> 6));
    out.push_back(char(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(char(0xE0 | code >> 12));
    out.push_back(char(0x80 | (code >> 6 & 0x3F)));
    out.push_back(char(0x80 | (code & 0x3F)));
  } else {
    out.push_back(char(0xF0 | code >> 18));
    out.push_back(char(0x80 | (code >> 12 & 0x3F)));
    out.push_back(char(0x80 | (code >> 6 & 0x3F)));
    out.push_back(char(0x80 | (code & 0x3F)));
  }
}

std::optional<unsigned> hex4(std::string_view text) {
  unsigned value = 0;
  if (text.size() < 4) return {};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
  if (error != std::errc() || stop != text.data() + 4) return {};
  return value;
}

}  // namespace

bool scan_chunk(std::string_view text, ChunkFacts& facts) {
  facts.choices.clear();
  facts.prompt_tokens.reset();
  facts.completion_tokens.reset();
  facts.error.reset();
  facts.finished = false;
  Skimmer json(text);
  if (json.peek() != '{') return false;
  json.object([&](std::string_view name) {
    if (name == "choices" && json.peek() == '[')
      json.array([&] {
        if (json.peek() != '{') return json.skip();
        scan_choice(json, facts.choices.emplace_back());
      });
    else if (name == "usage" && json.peek() == '{')
      scan_usage(json, facts);
    else if (name == "error")
      scan_error(json, facts);
    else
      scan_other(json, name, facts);
  });
  return json.ok() && json.at_end();
}

std::string unescape_json(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  while (!raw.empty()) {
    const std::size_t plain = std::min(raw.find('\\'), raw.size());
    out.append(raw.substr(0, plain));
    raw.remove_prefix(plain);
    if (raw.size() < 2) break;
    const char c = raw[1];
    raw.remove_prefix(2);
    switch (c) {
      case 'n':
        out.push_back('\n');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'u': {
        const auto unit = hex4(raw);
        if (!unit) {
          append_utf8(out, 0xFFFD);
          break;
        }
        raw.remove_prefix(4);
        unsigned code = *unit;
        if (code >= 0xD800 && code < 0xE000) {
          const auto low = raw.starts_with("\\u") ? hex4(raw.substr(2)) : std::nullopt;
          if (code < 0xDC00 && low && *low >= 0xDC00 && *low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (*low - 0xDC00);
            raw.remove_prefix(6);
          } else {
            code = 0xFFFD;
          }
        }
        append_utf8(out, code);
        break;
      }
      default:
        out.push_back(c);
    }
  }
  return out;
}

}  // namespace pagoda
