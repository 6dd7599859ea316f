// Filters on lists, dicts and other iterables.
#include <algorithm>

#include "jinja/attribute_path.h"
#include "jinja/filter_tables.h"
#include "jinja/operators.h"
#include "jinja/repr.h"
#include "jinja/text_functions.h"

namespace pagoda::jinja {
namespace {

Value filter_length(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  const std::optional<std::int64_t> length = length_of(render, value);
  if (!length) type_error("object of type '" + std::string(type_name(value)) + "' has no len()");
  return Value::integer(*length);
}

Value filter_first(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  Value first;
  if (iterate(render, value)->next(render, first)) return first;
  return Value::undefined("No first item, sequence was empty.");
}

bool is_reversible(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}

Value filter_last(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  if (!is_reversible(value)) type_error("'" + std::string(type_name(value)) + "' object is not reversible");
  if (value.is_sequence())
    return value.items().empty() ? Value::undefined("No last item, sequence was empty.")
                                 : value.items().back();
  std::vector<Value> items = to_vector(render, value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

// Existing items, provided through an iterator.
class Items final : public Iterator {
 public:
  Items(std::vector<Value> items, const char* name) : items_(std::move(items)) {
    for (const Value& item : items_) nest(*this, item);
    type_name = name;
  }
  bool next(Render&, Value& out) override {
    if (at_ >= items_.size()) return false;
    out = items_[at_++];
    return true;
  }

 private:
  const std::vector<Value> items_;
  std::size_t at_ = 0;
};

// Items that a function computes from a value and two arguments when the first item is requested.
class Deferred final : public Iterator {
 public:
  using Make = std::vector<Value> (*)(Render&, const Value& source, const Value& size, const Value& fill);
  Deferred(Make make, const Value& source, Value size = {}, Value fill = {})
      : make_(make), source_(source), size_(std::move(size)), fill_(std::move(fill)) {
    for (const Value* value : {&source_, &size_, &fill_}) nest(*this, *value);
  }
  bool next(Render& render, Value& out) override {
    const Render::Depth depth(render);
    if (!made_) {
      made_ = render.make_mutable<Gathered>();
      made_->items = make_(render, source_, size_, fill_);
    }
    if (at_ < made_->items.size()) {
      out = made_->items[at_++];
      return true;
    }
    made_->clear();
    return false;
  }

 private:
  const Make make_;
  const Value source_, size_, fill_;
  std::shared_ptr<Gathered> made_;
  std::size_t at_ = 0;
};

Value filter_reverse(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  if (value.is_string()) return reverse_text(render, value.text());
  std::vector<Value> items = to_vector(render, value);
  std::reverse(items.begin(), items.end());
  if (!is_reversible(value)) return Value::list(std::move(items));
  return {Kind::iterator, std::make_shared<Items>(std::move(items), "list_reverseiterator")};
}

Value filter_list(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return Value::list(to_vector(render, value));
}

Value filter_join(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  std::vector<Value> items = to_vector(render, value);
  if (bound.has_value(1)) {
    const AttributePath path(render, bound[1]);
    for (Value& item : items) item = path.get(render, item);
  }
  const Value separator = to_string(render, bound.get(0, Value::string("")));
  return join(render, separator.text(), items);
}

Value filter_sort(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = bound.flag(1, false);
  std::vector<AttributePath> paths;
  const Value attribute = bound.get(2, Value());
  if (attribute.is_string()) {
    const Value comma = Value::string(",");
    for (const Value& part : split_on(render, attribute.text(), comma.text(), -1, false))
      paths.emplace_back(render, part);
  } else {
    paths.emplace_back(render, attribute);
  }
  std::vector<Value> items = to_vector(render, value);
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.get(render, item);
      key.push_back(case_sensitive ? part : ignore_case(render, part));
    }
    keys.push_back(Value::list(std::move(key)));
  }
  sort_by_keys(render, items, std::move(keys), bound.flag(0, false));
  return Value::list(std::move(items));
}

Value filter_dict_sort(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.has(1) && bound[1].is_string() ? bound[1].text().bytes
                         : bound.has(1)                       ? ""
                                                              : "key";
  if (by != "key" && by != "value") value_error("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is(Kind::dict))
    type_error("'" + std::string(type_name(value)) + "' object has no attribute 'items'");
  std::vector<Value> items, keys;
  for (const auto& [key, item] : value.entries().entries) {
    items.push_back(Value::tuple({key, item}));
    const Value& sorted_by = by == "key" ? key : item;
    keys.push_back(bound.flag(0, false) ? sorted_by : ignore_case(render, sorted_by));
  }
  sort_by_keys(render, items, std::move(keys), bound.flag(2, false));
  return Value::list(std::move(items));
}

class Unique final : public Iterator {
 public:
  Unique(Render& render, const Value& source, const Value& attribute, bool case_sensitive)
      : source_(source), path_(render, attribute), case_sensitive_(case_sensitive) {
    nest(*this, source);
    nest(*this, attribute);
  }
  bool next(Render& render, Value& out) override {
    const Render::Depth depth(render);
    if (!items_) {
      items_ = iterate(render, source_);
      seen_ = render.make_mutable<Gathered>();
    }
    while (items_->next(render, out)) {
      render.step();
      Value key = path_.get(render, out);
      if (!case_sensitive_) key = ignore_case(render, key);
      if (render.find(seen_->keys, key) != nullptr) continue;
      render.set(seen_->keys, key, Value());
      return true;
    }
    seen_->clear();
    return false;
  }

 private:
  const Value source_;
  const AttributePath path_;
  const bool case_sensitive_;
  std::shared_ptr<Iterator> items_;
  std::shared_ptr<Gathered> seen_;
};

Value filter_unique(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  return {Kind::iterator,
          std::make_shared<Unique>(render, value, bound.get(1, Value()), bound.flag(0, false))};
}

template <bool is_max>
Value filter_extreme(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound(is_max ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const AttributePath path(render, bound.get(1, Value()));
  const std::shared_ptr<Iterator> items = iterate(render, value);
  Value best, best_key;
  bool any = false;
  for (Value item; items->next(render, item);) {
    Value key = path.get(render, item);
    if (!bound.flag(0, false)) key = ignore_case(render, key);
    if (!any || (is_max ? less(render, best_key, key) : less(render, key, best_key))) {
      best = item;
      best_key = std::move(key);
    }
    any = true;
  }
  return any ? best : Value::undefined("No aggregated item, sequence was empty.");
}

Value filter_sum(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const AttributePath path(render, bound.get(0, Value()));
  Value total = bound.get(1, Value::integer(0));
  if (total.is_string()) type_error("sum() can't sum strings [use ''.join(seq) instead]");
  const std::shared_ptr<Iterator> items = iterate(render, value);
  for (Value item; items->next(render, item);) {
    render.step();
    total = apply(render, BinaryOp::add, total, path.get(render, item));
  }
  return total;
}

std::vector<Value> make_items(Render& render, const Value& value, const Value&, const Value&) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (!value.is(Kind::dict)) type_error("Can only get item pairs from a mapping.");
  for (const auto& [key, item] : value.entries().entries) items.push_back(Value::tuple({key, item}));
  render.step(static_cast<std::int64_t>(items.size()));
  return items;
}
Value filter_items(Render&, const Value& value, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  return {Kind::iterator, std::make_shared<Deferred>(make_items, value)};
}

std::vector<Value> make_batches(Render& render, const Value& value, const Value& size_value,
                                const Value& fill) {
  const std::int64_t size = expect_integer(size_value, "batch");
  std::vector<Value> rows, row;
  for (const Value& item : to_vector(render, value)) {
    if (static_cast<std::int64_t>(row.size()) == size) rows.push_back(Value::list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (row.empty()) return rows;
  if (!fill.is_none() && static_cast<std::int64_t>(row.size()) < size) {
    render.check_count(static_cast<std::size_t>(size));
    render.step(size);
    row.resize(static_cast<std::size_t>(size), fill);
  }
  rows.push_back(Value::list(std::move(row)));
  return rows;
}
Value filter_batch(Render&, const Value& value, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  return {Kind::iterator, std::make_shared<Deferred>(make_batches, value, bound[0], bound.get(1, Value()))};
}

std::vector<Value> make_columns(Render& render, const Value& value, const Value& slices_value,
                                const Value& fill) {
  const std::int64_t slices = expect_integer(slices_value, "slice");
  const std::vector<Value> items = to_vector(render, value);
  if (slices == 0) fail(ErrorKind::zero_division, "integer division or modulo by zero");
  std::vector<Value> columns;
  if (slices < 0) return columns;
  render.check_count(static_cast<std::size_t>(slices));
  render.step(slices);
  const auto count = static_cast<std::size_t>(slices);
  const std::size_t each = items.size() / count, with_extra = items.size() % count;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t end = begin + each + (i < with_extra ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<std::ptrdiff_t>(begin),
                              items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!fill.is_none() && i >= with_extra) column.push_back(fill);
    columns.push_back(Value::list(std::move(column)));
    begin = end;
  }
  return columns;
}
Value filter_slice(Render&, const Value& value, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  return {Kind::iterator, std::make_shared<Deferred>(make_columns, value, bound[0], bound.get(1, Value()))};
}

Value filter_group_by(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(render, bound[0]);
  const Value* fallback = bound.has_value(1) ? &bound[1] : nullptr;
  const bool case_sensitive = bound.flag(2, false);
  const auto key_of = [&](const Value& item) {
    const Value key = path.get(render, item, fallback);
    return case_sensitive ? key : ignore_case(render, key);
  };
  std::vector<Value> items = to_vector(render, value), keys;
  for (const Value& item : items) keys.push_back(key_of(item));
  sort_by_keys(render, items, std::move(keys), false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < items.size();) {
    const Value key = key_of(items[begin]);
    std::vector<Value> group;
    std::size_t end = begin;
    for (; end < items.size() && equal(render, key_of(items[end]), key); ++end) group.push_back(items[end]);
    const Value grouper = case_sensitive ? key : path.get(render, items[begin], fallback);
    if (end == begin) end = begin + 1;  // a key that is not equal to itself (NaN)
    Value pair = Value::tuple({grouper, Value::list(std::move(group))});
    pair.as<List>().is_group = true;
    groups.push_back(std::move(pair));
    begin = end;
  }
  return Value::list(std::move(groups));
}

Value filter_default(Render&, const Value& value, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool replace_false = bound.flag(1, false);
  if (value.is_undefined() || (replace_false && !truthy(value))) return bound.get(0, Value::string(""));
  return value;
}

Value filter_attr(Render& render, const Value& value, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  const std::string& name = bound.string(0).bytes;
  if (value.is_undefined()) fail_undefined(value);
  if (std::optional<Value> found = render.python_attribute(value, name)) return *std::move(found);
  render.charge(name.size());
  return Value::undefined("'" + std::string(type_name(value)) + " object' has no attribute '" + name + "'");
}

Value filter_random(Render&, const Value&, const Arguments&) {
  fail(ErrorKind::limit, "the filter 'random' is not supported: a prompt must not depend on chance");
}

constexpr NamedFunction kSequenceFilters[] = {
    {"attr", filter_attr},     {"batch", filter_batch},       {"count", filter_length},
    {"d", filter_default},     {"default", filter_default},   {"dictsort", filter_dict_sort},
    {"first", filter_first},   {"groupby", filter_group_by},  {"items", filter_items},
    {"join", filter_join},     {"last", filter_last},         {"length", filter_length},
    {"list", filter_list},     {"max", filter_extreme<true>}, {"min", filter_extreme<false>},
    {"random", filter_random}, {"reverse", filter_reverse},   {"slice", filter_slice},
    {"sort", filter_sort},     {"sum", filter_sum},           {"unique", filter_unique},
};

}  // namespace

std::span<const NamedFunction> sequence_filters() { return kSequenceFilters; }

}  // namespace pagoda::jinja
