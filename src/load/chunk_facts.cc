#include "load/chunk_facts.h"

#include <algorithm>
#include <charconv>

#include "base/json_cursor.h"
#include "base/status.h"
#include "base/utf8.h"

namespace pagoda {
namespace {

Status scan_text(JsonCursor& json, ChoiceFacts& choice) {
  if (json.peek() != '"') return json.skip_value();
  std::string_view text;
  PAGODA_RETURN_IF_ERROR(json.raw_string(text));
  if (!text.empty()) choice.text = text;
  return ok_status();
}

// nullopt if the value is not an integer.
Status scan_integer(JsonCursor& json, std::optional<std::int64_t>& out) {
  std::string_view text;
  PAGODA_RETURN_IF_ERROR(json.raw_value(text));
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  out.reset();
  if (code == std::errc() && end == text.data() + text.size()) out = value;
  return ok_status();
}

// True if the value begins with `first`.
Status scan_flag(JsonCursor& json, char first, bool& out) {
  out = json.peek() == first;
  return json.skip_value();
}

enum class Level { choice, inner };  // inner: a choice's delta or message, which cannot contain another

Status scan_choice(JsonCursor& json, ChoiceFacts& choice, Level level = Level::choice) {
  return json.read_object([&](std::string_view name) -> Status {
    if (name == "text" || name == "content" || name == "reasoning_content" || name == "reasoning" ||
        name == "thinking" || name == "partial_json")
      return scan_text(json, choice);
    if (level == Level::choice && (name == "delta" || name == "message") && json.peek() == '{')
      return scan_choice(json, choice, Level::inner);
    if (name == "index") {
      std::optional<std::int64_t> index;
      PAGODA_RETURN_IF_ERROR(scan_integer(json, index));
      choice.index = index.value_or(0);
      return ok_status();
    }
    if (name == "token_ids" && json.peek() == '[') {
      choice.num_token_ids = 0;
      return json.read_array([&] {
        ++choice.num_token_ids;
        return json.skip_value();
      });
    }
    if (name == "finish_reason") return scan_flag(json, '"', choice.finished);
    return json.skip_value();
  });
}

Status scan_usage(JsonCursor& json, ChunkFacts& facts) {
  return json.read_object([&](std::string_view name) -> Status {
    if (name == "prompt_tokens") return scan_integer(json, facts.prompt_tokens);
    if (name == "completion_tokens" || name == "output_tokens")
      return scan_integer(json, facts.completion_tokens);
    if (name == "input_tokens" || name == "cache_read_input_tokens") {  // Messages counts these separately
      std::optional<std::int64_t> part;
      PAGODA_RETURN_IF_ERROR(scan_integer(json, part));
      facts.prompt_tokens = facts.prompt_tokens.value_or(0) + part.value_or(0);
      return ok_status();
    }
    return json.skip_value();
  });
}

Status scan_message(JsonCursor& json, std::string& out) {
  std::string_view text;
  PAGODA_RETURN_IF_ERROR(json.raw_string(text));
  out = unescape_json(text);
  return ok_status();
}

Status scan_error(JsonCursor& json, ChunkFacts& facts) {
  const char first = json.peek();
  if (first == 'n') return json.skip_value();  // null
  std::string& message = facts.error.emplace();
  if (first == '"') return scan_message(json, message);
  if (first != '{') return json.skip_value();
  return json.read_object([&](std::string_view name) {
    return name == "message" && json.peek() == '"' ? scan_message(json, message) : json.skip_value();
  });
}

bool ends_stream(std::string_view type) {
  return type == "message_stop" || type == "response.completed" || type == "response.incomplete";
}

// Scans the member `name` of a chunk. `choice` is the only choice in a protocol without `choices`.
Status scan_other(JsonCursor& json, std::string_view name, ChunkFacts& facts, ChoiceFacts& choice) {
  if (name == "type" && json.peek() == '"') {
    std::string_view type;
    PAGODA_RETURN_IF_ERROR(json.raw_string(type));
    facts.finished = facts.finished || ends_stream(type);
    return ok_status();
  }
  if ((name == "delta" || name == "content" || name == "response") && json.peek() == '"')
    return scan_text(json, choice);
  if ((name == "delta" || name == "message") && json.peek() == '{')
    return scan_choice(json, choice, Level::inner);
  if (name == "response" && json.peek() == '{')
    return json.read_object([&](std::string_view member) -> Status {
      if (member == "usage" && json.peek() == '{') return scan_usage(json, facts);
      if (member == "error") return scan_error(json, facts);
      return json.skip_value();
    });
  if (name == "done" || name == "stop") {
    bool ended = false;
    PAGODA_RETURN_IF_ERROR(scan_flag(json, 't', ended));
    facts.finished = facts.finished || ended;
    return ok_status();
  }
  if (name == "prompt_eval_count" || name == "tokens_evaluated")
    return scan_integer(json, facts.prompt_tokens);
  if (name == "eval_count" || name == "tokens_predicted") return scan_integer(json, facts.completion_tokens);
  return json.skip_value();
}

Status scan_member(JsonCursor& json, std::string_view name, ChunkFacts& facts) {
  if (name == "choices" && json.peek() == '[')
    return json.read_array([&] {
      return json.peek() == '{' ? scan_choice(json, facts.choices.emplace_back()) : json.skip_value();
    });
  if (name == "usage" && json.peek() == '{') return scan_usage(json, facts);
  if (name == "error") return scan_error(json, facts);
  ChoiceFacts choice;
  PAGODA_RETURN_IF_ERROR(scan_other(json, name, facts, choice));
  if (!choice.text.empty()) facts.choices.push_back(choice);  // a chunk without text is no token
  return ok_status();
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
  JsonCursor json(text);
  return json.peek() == '{' &&
         json.read_object([&](std::string_view name) { return scan_member(json, name, facts); }).ok() &&
         json.expect_end().ok();
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
          append_code_point(out, 0xFFFD);
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
        append_code_point(out, code);
        break;
      }
      default:
        out.push_back(c);
    }
  }
  return out;
}

}  // namespace pagoda
