#pragma once
// Value: what a template computes with. Python's types as far as templates reach them. Lists, tuples,
// dicts and strings never change once made (the immutable sandbox), so copies share them; what does
// change (namespaces, loops, cyclers, the variables of a macro) is a Mutable, owned by the Render until
// its end, so that no cycle leaks and no chain of them is destroyed recursively.
// Invariant: an immutable object is deeper than what it holds, at most kMaxDepth deep, and its weight
// counts every value below it once per path, up to kMaxWeight; so recursion over it is bounded both ways.
// Threads: immutable objects may be shared; a Mutable belongs to one Render.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/byte_range.h"
#include "jinja/error.h"

namespace pagoda::jinja {

class Render;
struct Arguments;

enum class Kind : std::uint8_t {
  missing,  // a variable that was never assigned; turned into undefined when read
  undefined,
  none,
  boolean,
  integer,
  big_integer,  // beyond int64, from the context: printed, compared for equality, never computed with
  real,
  string,
  list,
  tuple,
  dict,
  range,
  view,  // dict.keys(), .values(), .items()
  iterator,
  name_space,
  macro,
  function,
  method,
  loop,
  cycler,
  joiner,
};

inline constexpr std::int32_t kMaxDepth = 200;
inline constexpr std::uint32_t kMaxWeight = 4'000'000;

struct Object {
  std::int32_t depth = 0;
  std::uint32_t weight = 1;
  bool user = false;  // some string in it came from the context
  virtual ~Object() = default;
};

struct Mutable : Object {
  virtual void clear() = 0;  // drops every reference it holds
};

// A string and which of its bytes came out of the context.
struct String final : Object {
  String(std::string bytes_in, std::vector<ByteRange> ranges, bool markup_in);
  std::string bytes;
  std::vector<ByteRange> user_ranges;  // ascending, disjoint, not touching
  std::int64_t num_chars;
  bool markup;  // markupsafe.Markup: `+` escapes the other side
  bool ascii() const { return num_chars == static_cast<std::int64_t>(bytes.size()); }
};

struct List;
struct Dict;

class Value {
 public:
  Value() = default;  // None
  static Value missing() { return Value(Kind::missing); }
  static Value undefined(std::string message, bool security = false);
  static Value boolean(bool value) {
    Value v(Kind::boolean);
    v.integer_ = value ? 1 : 0;
    return v;
  }
  static Value integer(std::int64_t value) {
    Value v(Kind::integer);
    v.integer_ = value;
    return v;
  }
  static Value real(double value) {
    Value v(Kind::real);
    v.real_ = value;
    return v;
  }
  static Value string(std::string bytes, bool user = false, bool markup = false);
  static Value string(String&& text);
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value dict(Dict&& dict);
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // a Python int
  bool is_number() const { return is_integral() || kind_ == Kind::real; }
  bool is_sequence() const { return kind_ == Kind::list || kind_ == Kind::tuple; }

  bool as_bool() const { return integer_ != 0; }
  std::int64_t as_integer() const { return integer_; }  // boolean or integer
  double as_real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const String& text() const { return static_cast<const String&>(*object_); }
  const std::vector<Value>& items() const;  // list or tuple
  const Dict& entries() const;              // dict
  template <class T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& object() const { return object_; }
  std::int32_t depth() const { return object_ ? object_->depth : 0; }
  std::uint32_t weight() const { return object_ ? object_->weight : 1; }
  bool holds_user_text() const { return object_ && object_->user; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::none;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<Object> object_;
};

struct UndefinedInfo final : Object {
  std::string message;
  bool security = false;  // use of an attribute the sandbox hides
};

struct BigInteger final : Object {
  std::string digits;
};

struct List final : Object {
  std::vector<Value> items;
  bool is_group = false;  // the (grouper, list) pairs of groupby
};

// Keeps insertion order. Keys are hashable values; 1, 1.0 and True are the same key, as in Python.
struct Dict final : Object {
  std::vector<std::pair<Value, Value>> entries;

  const Value* find(const Value& key) const;  // type_error: the key is not hashable
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);

 private:
  void add_to_index(std::size_t position);
  std::ptrdiff_t position(const Value& key) const;
  std::unordered_multimap<std::size_t, std::uint32_t> index_;  // hash -> position, once large
};

struct Range final : Object {
  std::int64_t start = 0, stop = 0, step = 1, length = 0;
  // Unsigned arithmetic: the product may be beyond int64 where the sum is not.
  Value at(std::int64_t index) const {
    return Value::integer(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(start) +
                                  static_cast<std::uint64_t>(index) * static_cast<std::uint64_t>(step)));
  }
};

struct View final : Object {
  enum class Part { keys, values, items };
  Part part = Part::keys;
  Value dict;
};

struct Iterator : Object {
  // The next value in `out`; false at the end, and ever after.
  virtual bool next(Render& render, Value& out) = 0;
  const char* type_name = "generator";
};

// Values that a running iterator gathers beyond its initial depth: they belong to the Render, since chains
// and cycles of such iterators can be made.
struct Gathered final : Mutable {
  std::vector<Value> items;
  Dict keys;
  void clear() override {
    items.clear();
    keys = Dict();
  }
};

using NativeFunction = Value (*)(Render& render, const Value& self, const Arguments& arguments);

struct Function final : Object {
  const char* name = "";
  NativeFunction call = nullptr;
};

struct Method final : Object {
  Value self;
  const char* name = "";
  NativeFunction call = nullptr;
};

struct Namespace final : Mutable {
  Dict attributes;
  void clear() override { attributes = Dict(); }
};

struct Cycler final : Mutable {
  std::vector<Value> items;
  std::size_t position = 0;
  void clear() override { items.clear(); }
};

struct Joiner final : Mutable {
  Value separator;
  bool used = false;
  void clear() override { separator = Value(); }
};

// Adds `held` to the depth, weight and origin of `object`; a limit error when that gets too much.
void nest(Object& object, const Value& held);

std::size_t hash(const Value& value);           // type_error: not hashable
std::size_t key_bytes(const Value& key);        // size of the text that hashing it reads
bool same_key(const Value& a, const Value& b);  // equality of hashable values

bool truthy(const Value& value);
std::string_view type_name(const Value& value);  // as Python's type(x).__name__

}  // namespace pagoda::jinja
