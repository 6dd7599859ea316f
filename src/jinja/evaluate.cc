// Evaluation of expressions.
#include <utility>

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/render.h"
#include "jinja/repr.h"
#include "jinja/tests.h"

namespace pagoda::jinja {

Value Render::evaluate(const Expr& node, const ActivationPtr& activation) {
  const Depth depth(*this);
  step();
  switch (node.kind) {
    case ExprKind::constant:
      return static_cast<const ConstantExpr&>(node).value;
    case ExprKind::name: {
      const auto& name = static_cast<const NameExpr&>(node);
      const Value& value = slot(activation, name.ref);
      if (!value.is(Kind::missing)) return value;
      charge(name.name.size());
      return Value::undefined("'" + name.name + "' is undefined");
    }
    case ExprKind::tuple:
      return Value::tuple(evaluate_all(static_cast<const SequenceExpr&>(node).items, activation));
    case ExprKind::list:
      return Value::list(evaluate_all(static_cast<const SequenceExpr&>(node).items, activation));
    case ExprKind::concat:
      return evaluate_concat(static_cast<const SequenceExpr&>(node), activation);
    case ExprKind::dict:
      return evaluate_dict(static_cast<const DictExpr&>(node), activation);
    case ExprKind::unary: {
      const auto& unary = static_cast<const UnaryExpr&>(node);
      return apply(unary.op, evaluate(*unary.operand, activation));
    }
    case ExprKind::binary:
      return evaluate_binary(static_cast<const BinaryExpr&>(node), activation);
    case ExprKind::logical: {
      const auto& logical = static_cast<const LogicalExpr&>(node);
      Value left = evaluate(*logical.left, activation);
      return truthy(left) == logical.is_and ? evaluate(*logical.right, activation) : left;
    }
    case ExprKind::compare:
      return evaluate_compare(static_cast<const CompareExpr&>(node), activation);
    case ExprKind::conditional: {
      const auto& conditional = static_cast<const ConditionalExpr&>(node);
      if (truthy(evaluate(*conditional.condition, activation)))
        return evaluate(*conditional.then, activation);
      if (conditional.otherwise) return evaluate(*conditional.otherwise, activation);
      return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
    }
    case ExprKind::attribute: {
      const auto& access = static_cast<const AttributeExpr&>(node);
      return attribute(evaluate(*access.object, activation), access.name);
    }
    case ExprKind::item: {
      const auto& access = static_cast<const ItemExpr&>(node);
      const Value object = evaluate(*access.object, activation);
      return item(object, evaluate(*access.key, activation));
    }
    case ExprKind::slice:
      return evaluate_slice(static_cast<const SliceExpr&>(node), activation);
    case ExprKind::call:
      return evaluate_call(static_cast<const CallExpr&>(node), activation, nullptr);
    case ExprKind::filter: {
      const auto& filter = static_cast<const FilterExpr&>(node);
      return evaluate_filter(filter, evaluate(*filter.value, activation), activation);
    }
    case ExprKind::test:
      return evaluate_test(static_cast<const FilterExpr&>(node), activation);
  }
  return {};
}

std::vector<Value> Render::evaluate_all(const std::vector<ExprPtr>& nodes, const ActivationPtr& activation) {
  std::vector<Value> values;
  values.reserve(nodes.size());
  for (const ExprPtr& node : nodes) values.push_back(evaluate(*node, activation));
  return values;
}

Value Render::evaluate_binary(const BinaryExpr& node, const ActivationPtr& activation) {
  const Value left = evaluate(*node.left, activation);
  return apply(*this, node.op, left, evaluate(*node.right, activation));
}

Value Render::evaluate_concat(const SequenceExpr& node, const ActivationPtr& activation) {
  StringBuilder out;
  for (const Value& value : evaluate_all(node.items, activation)) append(out, value);
  return out.take_charged();
}

Value Render::evaluate_dict(const DictExpr& node, const ActivationPtr& activation) {
  Dict dict;
  for (const auto& [key, value] : node.entries) {
    const Value evaluated_key = evaluate(*key, activation);
    set(dict, evaluated_key, evaluate(*value, activation));
  }
  return Value::dict(std::move(dict));
}

Value Render::evaluate_compare(const CompareExpr& node, const ActivationPtr& activation) {
  Value left = evaluate(*node.first, activation);
  for (const auto& [op, operand] : node.rest) {
    Value right = evaluate(*operand, activation);
    if (!compare(*this, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Render::evaluate_slice(const SliceExpr& node, const ActivationPtr& activation) {
  const Value object = evaluate(*node.object, activation);
  const auto bound = [&](const ExprPtr& expr) { return expr ? evaluate(*expr, activation) : Value(); };
  const Value start = bound(node.start);
  const Value stop = bound(node.stop);
  return slice(*this, object, start, stop, bound(node.step));
}

Arguments Render::evaluate_arguments(const CallArguments& nodes, const ActivationPtr& activation) {
  Arguments arguments;
  arguments.positional = evaluate_all(nodes.positional, activation);
  for (const auto& [name, value] : nodes.keyword)
    arguments.keyword.emplace_back(name, evaluate(*value, activation));
  if (nodes.more_positional) {
    for (Value& value : to_vector(*this, evaluate(*nodes.more_positional, activation))) {
      arguments.positional.push_back(std::move(value));
    }
  }
  if (nodes.more_keyword) {
    const Value more = evaluate(*nodes.more_keyword, activation);
    if (!more.is(Kind::dict)) type_error("argument after ** must be a mapping");
    for (const auto& [key, value] : more.entries().entries) {
      if (!key.is_string()) type_error("keywords must be strings");
      work(key.text().bytes.size());
      step(static_cast<std::int64_t>(arguments.keyword.size()));
      for (const auto& [name, other] : arguments.keyword) {
        if (name == key.text().bytes) type_error("got multiple values for keyword argument '" + name + "'");
      }
      arguments.keyword.emplace_back(key.text().bytes, value);
    }
  }
  return arguments;
}

Value Render::evaluate_call(const CallExpr& node, const ActivationPtr& activation, const Value* caller) {
  const Value callee = evaluate(*node.callee, activation);
  Arguments arguments = evaluate_arguments(node.arguments, activation);
  if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
  return call(callee, arguments);
}

Value Render::evaluate_filter(const FilterExpr& node, const Value& value, const ActivationPtr& activation) {
  return call_filter(node.name, value, evaluate_arguments(node.arguments, activation));
}

// A chain of filters whose first has no expression before it, applied to `value`.
Value Render::evaluate_filters(const FilterExpr& last, const Value& value, const ActivationPtr& activation) {
  if (!last.value) return evaluate_filter(last, value, activation);
  const Depth depth(*this);
  const auto& before = static_cast<const FilterExpr&>(*last.value);
  return evaluate_filter(last, evaluate_filters(before, value, activation), activation);
}

Value Render::evaluate_test(const FilterExpr& node, const ActivationPtr& activation) {
  const Value value = evaluate(*node.value, activation);
  return Value::boolean(call_test(node.name, value, evaluate_arguments(node.arguments, activation)));
}

void Render::charge(const Arguments& arguments) {
  step(static_cast<std::int64_t>(arguments.positional.size() + arguments.keyword.size()));
  for (const auto& [name, value] : arguments.keyword) charge(name.size());
}

Value Render::call(const Value& callee, const Arguments& arguments) {
  step();
  charge(arguments);
  switch (callee.kind()) {
    case Kind::function:
      return callee.as<Function>().call(*this, Value(), arguments);
    case Kind::method:
      return callee.as<Method>().call(*this, callee.as<Method>().self, arguments);
    case Kind::macro:
      return call_macro(callee.as<Macro>(), arguments);
    case Kind::loop:
      return call_loop(callee.as<LoopContext>(), arguments);
    case Kind::joiner: {
      auto& joiner = callee.as<Joiner>();
      return std::exchange(joiner.used, true) ? joiner.separator : Value::string("");
    }
    case Kind::undefined:
      fail_undefined(callee);
    default:
      type_error("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

Value Render::call_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  const Depth depth(*this);
  step();
  charge(arguments);
  const NativeFunction filter = find_filter(name);
  if (filter == nullptr) fail(ErrorKind::runtime, "No filter named '" + std::string(name) + "' found.");
  return filter(*this, value, arguments);
}

bool Render::call_test(std::string_view name, const Value& value, const Arguments& arguments) {
  const Depth depth(*this);
  step();
  charge(arguments);
  const NativeFunction test = find_test(name);
  if (test == nullptr) fail(ErrorKind::runtime, "No test named '" + std::string(name) + "' found.");
  return truthy(test(*this, value, arguments));
}

}  // namespace pagoda::jinja
