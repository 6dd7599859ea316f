#include "constraint/pattern_lengths.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max() / 4;
constexpr int kMaxPatternDepth = 32;

std::int64_t times(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a >= kEndless / b ? kEndless : a * b;
}
std::int64_t plus(std::int64_t a, std::int64_t b) { return std::min(kEndless, a + b); }

// A character, a sequence or alternatives, repeated `least` to `most` times.
struct Node {
  enum class Kind { character, sequence, alternatives };
  Kind kind = Kind::sequence;
  std::string text = {};  // text of a character
  std::vector<Node> parts = {};
  std::int64_t least = 1, most = 1;

  std::int64_t once(bool longest) const {
    if (kind == Kind::character) return 1;
    std::int64_t out = kind == Kind::alternatives && !longest ? kEndless : 0;
    for (const Node& part : parts) {
      const std::int64_t length = part.length(longest);
      if (kind == Kind::sequence)
        out = plus(out, length);
      else
        out = longest ? std::max(out, length) : std::min(out, length);
    }
    return out;
  }
  std::int64_t length(bool longest) const { return times(longest ? most : least, once(longest)); }

  // Raises the minimum length to `wanted`; false if that is not possible.
  bool raise(std::int64_t wanted) {
    if (length(false) >= wanted) return true;
    if (length(true) < wanted) return false;
    const std::int64_t shortest = once(false);
    if (shortest > 0 && (kind == Kind::character || shortest == once(true))) {
      least = (wanted + shortest - 1) / shortest;
      return least <= most;
    }
    if (least != 1 || most != 1) {
      if (most == 0) return false;
      least = most = 1;  // keep a single repetition and raise the minimum within it
      if (length(true) < wanted) return false;
    }
    if (kind == Kind::alternatives) {
      std::erase_if(parts, [&](Node& part) { return !part.raise(wanted); });
      return !parts.empty();
    }
    const std::int64_t missing = wanted - length(false);
    // The longest part is lengthened, as far as possible.
    std::vector<std::size_t> order(parts.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto room = [&](std::size_t i) { return parts[i].length(true) - parts[i].length(false); };
    std::ranges::sort(
        order, [&](std::size_t a, std::size_t b) { return room(a) != room(b) ? room(a) > room(b) : a < b; });
    std::int64_t left = missing;
    for (const std::size_t i : order) {
      if (left <= 0) break;
      const std::int64_t more = std::min(left, room(i)), before = parts[i].length(false);
      if (more <= 0 || !parts[i].raise(before + more)) continue;
      left -= parts[i].length(false) - before;
    }
    return left <= 0;
  }

  // Lowers the maximum length to `wanted`.
  bool limit(std::int64_t wanted) {
    if (length(true) <= wanted) return true;
    if (length(false) > wanted) return false;
    const std::int64_t longest = once(true);
    const std::int64_t share = wanted / std::max<std::int64_t>(least, 1);  // share of each required part
    if (longest <= share) {
      most = std::max(least, wanted / longest);
      return true;
    }
    most = std::max<std::int64_t>(least, 1);
    if (kind == Kind::alternatives) {
      std::erase_if(parts, [&](Node& part) { return !part.limit(share); });
      if (parts.empty()) most = 0;
      return !parts.empty() || least == 0;
    }
    if (kind == Kind::character) return false;
    std::int64_t spare = share - once(false);
    if (spare < 0) {
      most = 0;
      return least == 0;
    }
    std::int64_t flexible =
        std::ranges::count_if(parts, [](const Node& part) { return part.length(true) > part.length(false); });
    for (Node& part : parts) {  // each part gets an equal share of the remainder
      const std::int64_t shortest = part.length(false);
      if (part.length(true) == shortest) continue;
      if (!part.limit(shortest + spare / flexible--)) return false;
      spare -= part.length(true) - shortest;
    }
    return true;
  }

  std::string written() const {
    std::string out = text;
    if (kind != Kind::character) {
      out = "(";
      for (std::size_t i = 0; i < parts.size(); ++i)
        out += concat(i > 0 && kind == Kind::alternatives ? "|" : "", parts[i].written());
      out += ")";
    }
    if (least == 1 && most == 1) return out;
    return concat(out, "{", least, ",", most >= kEndless ? std::string() : std::to_string(most), "}");
  }
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<Node> whole() {
    if (text_.starts_with('^')) text_.remove_prefix(1);
    if (text_.ends_with('$') && !text_.ends_with("\\$")) text_.remove_suffix(1);
    std::optional<Node> node = alternatives(0);
    if (!text_.empty()) return std::nullopt;
    return node;
  }

 private:
  std::optional<Node> alternatives(int depth) {
    if (depth > kMaxPatternDepth) return std::nullopt;
    Node all{.kind = Node::Kind::alternatives};
    while (true) {
      std::optional<Node> one = sequence(depth);
      if (!one) return std::nullopt;
      all.parts.push_back(*std::move(one));
      if (!text_.starts_with('|')) break;
      text_.remove_prefix(1);
    }
    if (all.parts.size() == 1) return std::move(all.parts.front());
    return all;
  }

  std::optional<Node> sequence(int depth) {
    Node all{.kind = Node::Kind::sequence};
    while (!text_.empty() && text_.front() != '|' && text_.front() != ')') {
      std::optional<Node> one = atom(depth);
      if (!one || !read_quantifier(*one)) return std::nullopt;
      all.parts.push_back(*std::move(one));
    }
    return all;
  }

  std::optional<Node> atom(int depth) {
    const char c = text_.front();
    if (c == '(') {
      text_.remove_prefix(1);
      if (text_.starts_with("?:"))
        text_.remove_prefix(2);
      else if (text_.starts_with('?'))
        return std::nullopt;
      std::optional<Node> inner = alternatives(depth + 1);
      if (!inner || !text_.starts_with(')')) return std::nullopt;
      text_.remove_prefix(1);
      if (inner->least == 1 && inner->most == 1) return inner;
      return Node{.kind = Node::Kind::sequence, .parts = {*std::move(inner)}};
    }
    std::size_t length = 1;
    if (c == '[') {
      length = class_length();
    } else if (c == '\\') {
      length = escape_length(0);
    } else if (std::string_view("^$*+?{})]").find(c) != std::string_view::npos) {
      return std::nullopt;
    }
    if (length == 0) return std::nullopt;
    Node node{.kind = Node::Kind::character, .text = std::string(text_.substr(0, length))};
    text_.remove_prefix(length);
    return node;
  }

  // The length of an escape that stands for a character; 0 if it does not.
  std::size_t escape_length(std::size_t at) const {
    const std::string_view rest = text_.substr(at);
    if (rest.size() < 2) return 0;
    const char c = rest[1];
    if (c == 'u') return rest.size() >= 6 && rest[2] != '{' ? 6 : 0;
    if (c == 'x') return rest.size() >= 4 ? 4 : 0;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return !letter || std::string_view("dDwWsSnrtfv").find(c) != std::string_view::npos ? 2 : 0;
  }
  std::size_t class_length() const {
    std::size_t at = text_.starts_with("[^") ? 2 : 1;
    for (bool first = true; at < text_.size(); first = false) {
      if (text_[at] == ']' && !first) return at + 1;
      const std::size_t step = text_[at] == '\\' ? std::max<std::size_t>(escape_length(at), 2) : 1;
      at += step;
    }
    return 0;
  }

  bool read_number(std::int64_t& out) {
    const std::size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
    if (digits == 0 || digits > 6) return false;
    out = std::stoll(std::string(text_.substr(0, digits)));
    text_.remove_prefix(digits);
    return true;
  }
  bool read_quantifier(Node& node) {
    if (text_.empty()) return true;
    const char c = text_.front();
    if (c == '*' || c == '+' || c == '?') {
      node.least = c == '+' ? 1 : 0;
      node.most = c == '?' ? 1 : kEndless;
      text_.remove_prefix(1);
    } else if (c == '{') {
      text_.remove_prefix(1);
      if (!read_number(node.least)) return false;
      node.most = node.least;
      if (text_.starts_with(',')) {
        text_.remove_prefix(1);
        node.most = kEndless;
        if (!text_.starts_with('}') && !read_number(node.most)) return false;
      }
      if (!text_.starts_with('}') || node.most < node.least) return false;
      text_.remove_prefix(1);
    } else {
      return true;
    }
    if (text_.starts_with('?')) text_.remove_prefix(1);  // lazy: matches the same strings
    return text_.empty() || std::string_view("*+?{").find(text_.front()) == std::string_view::npos;
  }

  std::string_view text_;
};

}  // namespace

std::optional<std::string> pattern_of_lengths(std::string_view pattern, std::int64_t least,
                                              std::int64_t most) {
  std::optional<Node> node = Reader(pattern).whole();
  if (!node) return std::nullopt;
  if (node->length(false) >= least && node->length(true) <= most) return std::string(pattern);
  if (least > most || !node->raise(least) || !node->limit(most)) return std::nullopt;
  if (node->length(false) < least || node->length(true) > most) return std::nullopt;
  return concat("^", node->written(), "$");
}

}  // namespace pagoda
