#pragma once
// Python's operators on values.
#include "jinja/ast.h"
#include "jinja/render.h"

namespace pagoda::jinja {

Value apply(UnaryOp op, const Value& operand);
Value apply(Render& render, BinaryOp op, const Value& left, const Value& right);
bool compare(Render& render, CompareOp op, const Value& left, const Value& right);

bool equal(Render& render, const Value& left, const Value& right);
bool less(Render& render, const Value& left, const Value& right);  // type_error if they have no order
bool contains(Render& render, const Value& container, const Value& item);
// slice.cc
Value slice(Render& render, const Value& object, const Value& start, const Value& stop, const Value& step);
[[noreturn]] void integer_overflow();

// Sorts stably, using only `<`, like list.sort(); `keys` and `items` must have the same length.
void sort_by_keys(Render& render, std::vector<Value>& items, std::vector<Value> keys, bool reverse);

}  // namespace pagoda::jinja
