#pragma once
// Value: a value of a template: Python's types, as far as templates can reach them. Lists, tuples, dicts and
// strings never change once created (the immutable sandbox), so copies share them. Mutable objects
// (namespaces, loops, cyclers, a macro's variables) are of type Mutable and owned by the Render until its
// end, so that no cycle leaks and no chain is destroyed recursively.
// Invariant: an immutable object is deeper than its contents, at most kMaxDepth deep, and its weight counts
// every value below it once per path, up to kMaxWeight; so recursion over it is bounded in depth and in work.
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
  missing,  // a variable that was never assigned; becomes undefined when read
  undefined,
  none,
  boolean,
  integer,
  // Beyond int64, from the context: can be printed and compared for equality, but not computed with.
  big_integer,
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
  bool user = false;  // contains a string from the context
  virtual ~Object() = default;
};

struct Mutable : Object {
  virtual void clear() = 0;  // drops all its references
};

// A string, and which of its bytes came from the context.
struct String final : Object {
  String(std::string bytes_in, std::vector<ByteRange> ranges, bool markup_in);
  std::string bytes;
  std::vector<ByteRange> user_ranges;  // ascending, disjoint, not adjacent
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
  bool security = false;  // caused by access to an attribute hidden by the sandbox
};

struct BigInteger final : Object {
  std::string digits;
};

struct List final : Object {
  std::vector<Value> items;
  bool is_group = false;  // the (grouper, list) pairs of groupby
};

// Keeps insertion order. Keys must be hashable; 1, 1.0 and True are the same key, as in Python.
struct Dict final : Object {
  std::vector<std::pair<Value, Value>> entries;

  const Value* find(const Value& key) const;  // type_error if the key is not hashable
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);

 private:
  void add_to_index(std::size_t position);
  std::ptrdiff_t position(const Value& key) const;
  // Hash -> position; used once the dict is large.
  std::unordered_multimap<std::size_t, std::uint32_t> index_;
};

struct Range final : Object {
  std::int64_t start = 0, stop = 0, step = 1, length = 0;
  // Unsigned arithmetic: the product may exceed int64 although the sum does not.
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
  // Stores the next value in `out`; false at the end and from then on.
  virtual bool next(Render& render, Value& out) = 0;
  const char* type_name = "generator";
};

// Values that a running iterator collects beyond its initial depth. They belong to the Render, since
// templates can create chains and cycles of such iterators.
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

// Includes `held` in the depth, weight and origin of `object`; limit error if they become too large.
void nest(Object& object, const Value& held);

std::size_t hash(const Value& value);           // type_error if not hashable
std::size_t key_bytes(const Value& key);        // size of the text that hashing reads
bool same_key(const Value& a, const Value& b);  // equality of hashable values

bool truthy(const Value& value);
std::string_view type_name(const Value& value);  // Python's type(x).__name__

}  // namespace pagoda::jinja
