#include "jinja/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>

namespace pagoda::jinja {
namespace {

constexpr std::size_t kIndexFrom = 12;  // with fewer entries, a scan is faster than an index
constexpr std::uint32_t kMaxKeyWeight = 1000;

std::int64_t count_chars(std::string_view bytes) {
  std::int64_t count = 0;
  for (const char c : bytes) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace

String::String(std::string bytes_in, std::vector<ByteRange> ranges, bool markup_in)
    : bytes(std::move(bytes_in)),
      user_ranges(std::move(ranges)),
      num_chars(count_chars(bytes)),
      markup(markup_in) {
  user = !user_ranges.empty();
}

void nest(Object& object, const Value& held) {
  object.depth = std::max(object.depth, held.depth() + 1);
  object.weight += held.weight();
  object.user = object.user || held.holds_user_text();
  if (object.depth > kMaxDepth) fail(ErrorKind::limit, "a value is nested too deeply");
  if (object.weight > kMaxWeight) fail(ErrorKind::limit, "a value is too large");
}

Value Value::undefined(std::string message, bool security) {
  auto info = std::make_shared<UndefinedInfo>();
  info->message = std::move(message);
  info->security = security;
  return {Kind::undefined, std::move(info)};
}

Value Value::string(std::string bytes, bool user, bool markup) {
  std::vector<ByteRange> ranges;
  if (user && !bytes.empty()) ranges.push_back({0, bytes.size()});
  return string(String(std::move(bytes), std::move(ranges), markup));
}

Value Value::string(String&& text) { return {Kind::string, std::make_shared<String>(std::move(text))}; }

Value Value::list(std::vector<Value> items) {
  auto list = std::make_shared<List>();
  for (const Value& item : items) nest(*list, item);
  list->items = std::move(items);
  return {Kind::list, std::move(list)};
}

Value Value::tuple(std::vector<Value> items) {
  Value value = list(std::move(items));
  value.kind_ = Kind::tuple;
  return value;
}

Value Value::dict(Dict&& dict) { return {Kind::dict, std::make_shared<Dict>(std::move(dict))}; }

const std::vector<Value>& Value::items() const { return static_cast<const List&>(*object_).items; }
const Dict& Value::entries() const { return static_cast<const Dict&>(*object_); }

namespace {

// Keys come from clients: with a polynomial evaluated at a secret point modulo a prime, texts with colliding
// hashes cannot be prepared in advance. No order depends on the hash.
std::size_t hash_text(std::string_view text) {
  constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;
  static const std::uint64_t point = [] {
    std::random_device random;
    return ((std::uint64_t{random()} << 32 | random()) & kPrime) | 1;
  }();
  std::uint64_t sum = text.size();
  while (!text.empty()) {
    std::uint64_t piece = 0;  // 7 bytes, hence below the prime
    const std::size_t count = std::min<std::size_t>(text.size(), 7);
    std::memcpy(&piece, text.data(), count);
    text.remove_prefix(count);
    __extension__ using Wide = unsigned __int128;
    const Wide product = Wide{sum} * point + piece;
    sum = static_cast<std::uint64_t>(product & kPrime) + static_cast<std::uint64_t>(product >> 61);
    if (sum >= kPrime) sum -= kPrime;
  }
  return sum;
}

}  // namespace

std::size_t hash(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
    case Kind::integer:
      return std::hash<std::int64_t>()(value.as_integer());
    case Kind::real: {
      const double number = value.as_real();
      if (number == std::floor(number) && std::abs(number) < 9e18) {
        return std::hash<std::int64_t>()(static_cast<std::int64_t>(number));
      }
      return std::hash<double>()(number);
    }
    case Kind::string:
      return hash_text(value.text().bytes);
    case Kind::big_integer:
      return hash_text(value.as<BigInteger>().digits);
    case Kind::tuple: {
      if (value.weight() > kMaxKeyWeight) fail(ErrorKind::limit, "a dict key is too large");
      std::size_t sum = 0x345678;
      for (const Value& item : value.items()) sum = sum * 1000003 + hash(item);
      return sum;
    }
    case Kind::none:
    case Kind::undefined:
    case Kind::missing:
      return static_cast<std::size_t>(value.kind());
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      type_error("unhashable type: '" + std::string(type_name(value)) + "'");
    default:
      return std::hash<const void*>()(value.object().get());
  }
}

std::size_t key_bytes(const Value& key) {
  if (key.is_string()) return key.text().bytes.size();
  if (!key.is(Kind::tuple) || key.weight() > kMaxKeyWeight) return 0;
  std::size_t sum = 0;
  for (const Value& item : key.items()) sum += key_bytes(item);
  return sum;
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
    return a.as_real() == b.as_real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string:
      return a.text().bytes == b.text().bytes;
    case Kind::big_integer:
      return a.as<BigInteger>().digits == b.as<BigInteger>().digits;
    case Kind::tuple:
      return a.items().size() == b.items().size() &&
             std::equal(a.items().begin(), a.items().end(), b.items().begin(), same_key);
    case Kind::none:
    case Kind::undefined:
    case Kind::missing:
      return true;
    default:
      return a.object() == b.object();
  }
}

std::ptrdiff_t Dict::position(const Value& key) const {
  const std::size_t key_hash = hash(key);  // also rejects values that cannot be a key
  if (index_.empty()) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (same_key(entries[i].first, key)) return static_cast<std::ptrdiff_t>(i);
    }
    return -1;
  }
  const auto [first, last] = index_.equal_range(key_hash);
  for (auto it = first; it != last; ++it) {
    if (same_key(entries[it->second].first, key)) return it->second;
  }
  return -1;
}

const Value* Dict::find(const Value& key) const {
  const std::ptrdiff_t at = position(key);
  return at < 0 ? nullptr : &entries[static_cast<std::size_t>(at)].second;
}

const Value* Dict::find(std::string_view key) const {
  if (!index_.empty()) return find(Value::string(std::string(key)));
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.text().bytes == key) return &value;
  }
  return nullptr;
}

void Dict::add_to_index(std::size_t position) {
  index_.emplace(hash(entries[position].first), static_cast<std::uint32_t>(position));
}

void Dict::set(const Value& key, Value value) {
  const std::ptrdiff_t at = position(key);
  nest(*this, key);
  nest(*this, value);
  if (at >= 0) {
    entries[static_cast<std::size_t>(at)].second = std::move(value);
    return;
  }
  entries.emplace_back(key, std::move(value));
  if (entries.size() == kIndexFrom) {
    for (std::size_t i = 0; i < entries.size(); ++i) add_to_index(i);
  } else if (entries.size() > kIndexFrom) {
    add_to_index(entries.size() - 1);
  }
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::string:
      return !value.text().bytes.empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return !value.entries().entries.empty();
    case Kind::range:
      return value.as<Range>().length != 0;
    case Kind::view:
      return !value.as<View>().dict.entries().entries.empty();
    default:
      return true;
  }
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
    case Kind::big_integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return value.text().markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view: {
      constexpr std::string_view kNames[] = {"dict_keys", "dict_values", "dict_items"};
      return kNames[static_cast<int>(value.as<View>().part)];
    }
    case Kind::iterator:
      return value.as<Iterator>().type_name;
    case Kind::name_space:
      return "TemplateNamespace";
    case Kind::macro:
      return "Macro";
    case Kind::function:
      return "function";
    case Kind::method:
      return "builtin_function_or_method";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
  }
  return "object";
}

}  // namespace pagoda::jinja
