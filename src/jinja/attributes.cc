// `.` and `[]`: jinja2's attribute access looks for a Python attribute first and an item second; its
// subscript the other way round. Neither reaches names that begin with an underscore, or methods that change
// a value.
#include <algorithm>

#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/render.h"
#include "jinja/repr.h"
#include "jinja/unicode.h"

namespace pagoda::jinja {
namespace {

Value bind(const Value& object, const NamedFunction& method) {
  auto bound = std::make_shared<Method>();
  nest(*bound, object);
  bound->self = object;
  bound->name = method.name.data();
  bound->call = method.function;
  return {Kind::method, std::move(bound)};
}

Value native(const Value& object, const char* name, NativeFunction function) {
  return bind(object, NamedFunction{name, function});
}

Value undefined_attribute(Render& render, const Value& object, const Value& name) {
  std::string type = object.is_none() ? "None" : std::string(type_name(object)) + " object";
  if (name.is_string()) {
    render.charge(name.text().bytes.size());
    return Value::undefined("'" + type + "' has no attribute '" + name.text().bytes + "'");
  }
  StringBuilder key;
  append_repr(render, key, name);
  render.charge(key.size());
  return Value::undefined(type + " has no element " + key.take_bytes());
}

std::optional<Value> loop_attribute(Render& render, const Value& object, std::string_view name) {
  auto& loop = object.as<LoopContext>();
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(loop.peek(render).is(Kind::missing));
  if (name == "length") return Value::integer(loop.count(render));
  if (name == "revindex") return Value::integer(loop.count(render) - loop.index0);
  if (name == "revindex0") return Value::integer(loop.count(render) - loop.index0 - 1);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem")
    return loop.index0 == 0 ? Value::undefined("there is no previous item") : loop.before;
  if (name == "nextitem") {
    const Value& next = loop.peek(render);
    return next.is(Kind::missing) ? Value::undefined("there is no next item") : next;
  }
  if (name == "cycle") {
    return native(object, "cycle", [](Render&, const Value& self, const Arguments& arguments) {
      if (arguments.positional.empty()) type_error("no items for cycling given");
      if (!arguments.keyword.empty()) type_error("cycle() takes no keyword arguments");
      const auto index = static_cast<std::size_t>(self.as<LoopContext>().index0);
      return arguments.positional[index % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return native(object, "changed", [](Render& render_in, const Value& self, const Arguments& arguments) {
      if (!arguments.keyword.empty()) type_error("changed() takes no keyword arguments");
      auto& context = self.as<LoopContext>();
      const Value now = Value::tuple(arguments.positional);
      const bool changed =
          context.last_changed.is(Kind::missing) || !equal(render_in, context.last_changed, now);
      context.last_changed = now;
      return Value::boolean(changed);
    });
  }
  return std::nullopt;
}

std::optional<Value> cycler_attribute(Render& render, const Value& object, std::string_view name) {
  auto& cycler = object.as<Cycler>();
  if (name == "current") return cycler.items[cycler.position];
  if (name == "pos") return Value::integer(static_cast<std::int64_t>(cycler.position));
  if (name == "items") {
    render.step(static_cast<std::int64_t>(cycler.items.size()));
    return Value::tuple(cycler.items);
  }
  if (name == "next") {
    return native(object, "next", [](Render&, const Value& self, const Arguments& arguments) {
      const Bound bound("next", arguments, {});
      auto& target = self.as<Cycler>();
      Value current = target.items[target.position];
      target.position = (target.position + 1) % target.items.size();
      return current;
    });
  }
  if (name == "reset") {
    return native(object, "reset", [](Render&, const Value& self, const Arguments& arguments) {
      const Bound bound("reset", arguments, {});
      self.as<Cycler>().position = 0;
      return Value();
    });
  }
  return std::nullopt;
}

std::optional<Value> macro_attribute(Render& render, const Value& object, std::string_view name) {
  const MacroCode& code = *object.as<Macro>().code;
  if (name == "name") {
    render.charge(code.name.size());
    return code.name.empty() ? Value() : Value::string(code.name);
  }
  if (name == "catch_kwargs") return Value::boolean(code.kwargs.has_value());
  if (name == "catch_varargs") return Value::boolean(code.varargs.has_value());
  if (name == "caller") return Value::boolean(code.caller.has_value());
  if (name == "arguments") {
    std::vector<Value> names;
    for (const auto& parameter : code.parameters) {
      render.work(parameter.name.size());
      names.push_back(Value::string(parameter.name));
    }
    return Value::tuple(std::move(names));
  }
  return std::nullopt;
}

std::optional<Value> number_attribute(const Value& object, std::string_view name) {
  const Value self = object.is_integral() ? Value::integer(object.as_integer()) : object;
  if (name == "real") return self;
  if (name == "imag") return object.is_integral() ? Value::integer(0) : Value::real(0);
  if (name == "numerator" && object.is_integral()) return self;
  if (name == "denominator" && object.is_integral()) return Value::integer(1);
  return std::nullopt;
}

// The index for an integer position with Python's rules; nullopt if it is out of range.
std::optional<std::size_t> position(const Value& key, std::int64_t length) {
  std::int64_t index = key.as_integer();
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::optional<Value> indexed(Render& render, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::string: {
      const String& text = object.text();
      const auto at = position(key, text.num_chars);
      if (!at) return std::nullopt;
      if (text.ascii()) return substring(render, text, *at, *at + 1);
      render.work(text.bytes.size());
      const std::size_t begin = byte_offset(text.bytes, static_cast<std::int64_t>(*at));
      std::size_t end = begin;
      next_char(text.bytes, end);
      return substring(render, text, begin, end);
    }
    case Kind::list:
    case Kind::tuple: {
      const auto at = position(key, static_cast<std::int64_t>(object.items().size()));
      return at ? std::optional(object.items()[*at]) : std::nullopt;
    }
    case Kind::range: {
      const auto at = position(key, object.as<Range>().length);
      return at ? std::optional(object.as<Range>().at(static_cast<std::int64_t>(*at))) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

// --- iteration ---

class VectorIterator final : public Iterator {
 public:
  explicit VectorIterator(const Value& owner) : owner_(owner) {
    nest(*this, owner);
    type_name = owner.is(Kind::list) ? "list_iterator" : "tuple_iterator";
  }
  bool next(Render&, Value& out) override {
    if (at_ >= owner_.items().size()) return false;
    out = owner_.items()[at_++];
    return true;
  }

 private:
  const Value owner_;
  std::size_t at_ = 0;
};

class StringIterator final : public Iterator {
 public:
  explicit StringIterator(const Value& owner) : owner_(owner) { type_name = "str_iterator"; }
  bool next(Render& render, Value& out) override {
    const String& text = owner_.text();
    if (at_ >= text.bytes.size()) return false;
    const std::size_t begin = at_;
    next_char(text.bytes, at_);
    StringBuilder piece;
    piece.append(text, begin, at_);
    out = piece.take(render);  // a str even if the text is Markup
    return true;
  }

 private:
  const Value owner_;
  std::size_t at_ = 0;
};

class DictIterator final : public Iterator {
 public:
  DictIterator(const Value& dict, View::Part part) : dict_(dict), part_(part) { nest(*this, dict); }
  bool next(Render&, Value& out) override {
    const auto& entries = dict_.entries().entries;
    if (at_ >= entries.size()) return false;
    const auto& [key, value] = entries[at_++];
    out = part_ == View::Part::keys ? key : part_ == View::Part::values ? value : Value::tuple({key, value});
    return true;
  }

 private:
  const Value dict_;
  const View::Part part_;
  std::size_t at_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  explicit RangeIterator(const Range& range) : range_(range) { type_name = "range_iterator"; }
  bool next(Render&, Value& out) override {
    if (at_ >= range_.length) return false;
    out = range_.at(at_++);
    return true;
  }

 private:
  const Range range_;
  std::int64_t at_ = 0;
};

class EmptyIterator final : public Iterator {
 public:
  bool next(Render&, Value&) override { return false; }
};

}  // namespace

std::optional<Value> Render::python_attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is(Kind::name_space)) {
    charge(name.size());
    const Value* found = object.as<Namespace>().attributes.find(name);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (name.starts_with('_')) {
    if (!name.starts_with("__")) return std::nullopt;
    static constexpr std::string_view kReal[] = {"__class__", "__doc__", "__init__", "__dict__", "__len__"};
    if (std::find(std::begin(kReal), std::end(kReal), name) == std::end(kReal)) return std::nullopt;
    return Value::undefined("access to attribute '" + std::string(name) + "' is unsafe.", true);
  }
  if (is_changing_method(object, name)) {
    return Value::undefined("access to attribute '" + std::string(name) + "' of '" +
                                std::string(type_name(object)) + "' object is unsafe.",
                            true);
  }
  if (const NamedFunction* method = find_method(object, name)) return bind(object, *method);
  switch (object.kind()) {
    case Kind::loop:
      return loop_attribute(*this, object, name);
    case Kind::cycler:
      return cycler_attribute(*this, object, name);
    case Kind::macro:
      return macro_attribute(*this, object, name);
    case Kind::joiner:
      if (name == "sep") return object.as<Joiner>().separator;
      if (name == "used") return Value::boolean(object.as<Joiner>().used);
      return std::nullopt;
    case Kind::integer:
    case Kind::boolean:
    case Kind::real:
      return number_attribute(object, name);
    case Kind::tuple:
      if (!object.as<List>().is_group) return std::nullopt;
      if (name == "grouper") return object.items()[0];
      if (name == "list") return object.items()[1];
      return std::nullopt;
    case Kind::range:
      if (name == "start") return Value::integer(object.as<Range>().start);
      if (name == "stop") return Value::integer(object.as<Range>().stop);
      if (name == "step") return Value::integer(object.as<Range>().step);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

Value Render::attribute(const Value& object, const Value& name) {
  if (std::optional<Value> found = python_attribute(object, name.text().bytes)) return *std::move(found);
  if (object.is(Kind::dict)) {
    if (const Value* value = find(object.entries(), name)) return *value;
  }
  return undefined_attribute(*this, object, name);
}

Value Render::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is(Kind::dict)) {
    const bool hashable = !key.is(Kind::list) && !key.is(Kind::dict) && !key.is(Kind::view);
    const Value* value = hashable ? find(object.entries(), key) : nullptr;
    if (value != nullptr) return *value;
  } else if (key.is_integral()) {
    if (std::optional<Value> value = indexed(*this, object, key)) return *std::move(value);
  }
  if (key.is_string()) {
    if (std::optional<Value> found = python_attribute(object, key.text().bytes)) return *std::move(found);
  }
  return undefined_attribute(*this, object, key);
}

std::shared_ptr<Iterator> iterate(Render& render, const Value& value) {
  switch (value.kind()) {
    case Kind::list:
    case Kind::tuple:
      return std::make_shared<VectorIterator>(value);
    case Kind::string:
      render.work(value.text().bytes.size());
      return std::make_shared<StringIterator>(value);
    case Kind::dict:
      return std::make_shared<DictIterator>(value, View::Part::keys);
    case Kind::view:
      return std::make_shared<DictIterator>(value.as<View>().dict, value.as<View>().part);
    case Kind::range:
      return std::make_shared<RangeIterator>(value.as<Range>());
    case Kind::iterator:
      return std::static_pointer_cast<Iterator>(value.object());
    case Kind::undefined:
      return std::make_shared<EmptyIterator>();
    default:
      type_error("'" + std::string(type_name(value)) + "' object is not iterable");
  }
}

std::vector<Value> to_vector(Render& render, const Value& value) {
  if (value.is_sequence()) {
    render.step(static_cast<std::int64_t>(value.items().size()));
    return value.items();
  }
  std::vector<Value> items;
  const std::shared_ptr<Iterator> iterator = iterate(render, value);
  for (Value item; iterator->next(render, item);) {
    render.step();
    items.push_back(item);
  }
  return items;
}

std::optional<std::int64_t> length_of(Render& render, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return value.text().num_chars;
    case Kind::list:
    case Kind::tuple:
      return static_cast<std::int64_t>(value.items().size());
    case Kind::dict:
      return static_cast<std::int64_t>(value.entries().entries.size());
    case Kind::view:
      return static_cast<std::int64_t>(value.as<View>().dict.entries().entries.size());
    case Kind::range:
      return value.as<Range>().length;
    case Kind::loop:
      return value.as<LoopContext>().count(render);
    default:
      return std::nullopt;
  }
}

void fail_undefined(const Value& undefined) {
  const auto& info = undefined.as<UndefinedInfo>();
  fail(info.security ? ErrorKind::security : ErrorKind::undefined, info.message);
}

}  // namespace pagoda::jinja
