// map, select, reject and their attribute forms: lazy, as in Python.
#include "jinja/attribute_path.h"
#include "jinja/filter_tables.h"

namespace pagoda::jinja {
namespace {

// Base of all: the items come from another value, which is first accessed when the first item is requested,
// as in Python's generators; chains of such filters are bounded.
class Derived : public Iterator {
 public:
  explicit Derived(const Value& source) : source_(source) { nest(*this, source); }

 protected:
  bool next_item(Render& render, Value& out) {
    const Render::Depth depth(render);
    render.step();
    if (!std::exchange(begun_, true) && truthy(source_)) items_ = iterate(render, source_);
    return items_ && items_->next(render, out);
  }

 private:
  const Value source_;
  bool begun_ = false;
  std::shared_ptr<Iterator> items_;
};

class MapAttribute final : public Derived {
 public:
  MapAttribute(Render& render, const Value& source, const Value& attribute, Value fallback)
      : Derived(source), path_(render, attribute), fallback_(std::move(fallback)) {
    nest(*this, attribute);
    nest(*this, fallback_);
  }
  bool next(Render& render, Value& out) override {
    Value item;
    if (!next_item(render, item)) return false;
    out = path_.get(render, item, fallback_.is_none() ? nullptr : &fallback_);
    return true;
  }

 private:
  const AttributePath path_;
  const Value fallback_;
};

class MapFilter final : public Derived {
 public:
  MapFilter(const Value& source, Arguments arguments) : Derived(source), arguments_(std::move(arguments)) {
    nest(*this, arguments_);
  }
  bool next(Render& render, Value& out) override {
    Value item;
    if (!next_item(render, item)) return false;
    if (name_.is_none()) {
      if (arguments_.positional.empty()) type_error("map requires a filter argument");
      name_ = arguments_.positional.front();
      arguments_.positional.erase(arguments_.positional.begin());
    }
    out = render.call_filter(expect_string(name_, "map").bytes, item, arguments_);
    return true;
  }

 private:
  Value name_;
  Arguments arguments_;
};

Value filter_map(Render& render, const Value& value, const Arguments& arguments) {
  if (arguments.positional.empty() && !arguments.keyword.empty()) {
    Value attribute, fallback;
    bool has_attribute = false;
    std::string unexpected;
    for (const auto& [name, argument] : arguments.keyword) {
      if (name == "attribute") {
        attribute = argument;
        has_attribute = true;
      } else if (name == "default") {
        fallback = argument;
      } else {
        unexpected = name;
      }
    }
    if (has_attribute) {
      if (!unexpected.empty() && truthy(value))
        type_error("Unexpected keyword argument '" + unexpected + "'");
      return {Kind::iterator, std::make_shared<MapAttribute>(render, value, attribute, fallback)};
    }
  }
  return {Kind::iterator, std::make_shared<MapFilter>(value, arguments)};
}

class Selection final : public Derived {
 public:
  Selection(const Value& source, Arguments arguments, bool by_attribute, bool keep)
      : Derived(source), arguments_(std::move(arguments)), by_attribute_(by_attribute), keep_(keep) {
    nest(*this, arguments_);
  }

  bool next(Render& render, Value& out) override {
    while (next_item(render, out)) {
      prepare(render);
      const Value subject = path_ ? path_->get(render, out) : out;
      const bool passes = test_.is_none()
                              ? truthy(subject)
                              : render.call_test(expect_string(test_, "select").bytes, subject, arguments_);
      if (passes == keep_) return true;
    }
    return false;
  }

 private:
  // Extracts the attribute and the test from the arguments; lazily, as Python's generator does.
  void prepare(Render& render) {
    if (std::exchange(prepared_, true)) return;
    auto& positional = arguments_.positional;
    if (by_attribute_) {
      if (positional.empty()) type_error("Missing parameter for attribute name");
      path_.emplace(render, positional.front());
      positional.erase(positional.begin());
    }
    if (!positional.empty()) {
      test_ = positional.front();
      positional.erase(positional.begin());
    }
  }

  Arguments arguments_;
  const bool by_attribute_, keep_;
  bool prepared_ = false;
  std::optional<AttributePath> path_;
  Value test_;
};

template <bool by_attribute, bool keep>
Value filter_selection(Render&, const Value& value, const Arguments& arguments) {
  return {Kind::iterator, std::make_shared<Selection>(value, arguments, by_attribute, keep)};
}

constexpr NamedFunction kSelectFilters[] = {
    {"map", filter_map},
    {"reject", filter_selection<false, false>},
    {"rejectattr", filter_selection<true, false>},
    {"select", filter_selection<false, true>},
    {"selectattr", filter_selection<true, true>},
};

}  // namespace

std::span<const NamedFunction> select_filters() { return kSelectFilters; }

}  // namespace pagoda::jinja
