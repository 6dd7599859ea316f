// Macros, call blocks, recursive loops, and the `loop` variable.
#include <algorithm>
#include <utility>

#include "jinja/render.h"
#include "jinja/repr.h"

namespace pagoda::jinja {

bool LoopContext::advance(Render& render, Value& out) {
  Value next;
  if (peeked) {
    peeked = false;
    next = std::exchange(after, Value::missing());
    if (next.is(Kind::missing)) return false;
  } else if (!iterator->next(render, next)) {
    return false;
  }
  ++index0;
  before = std::exchange(current, next);
  out = std::move(next);
  return true;
}

const Value& LoopContext::peek(Render& render) {
  if (!peeked) {
    if (!iterator->next(render, after)) after = Value::missing();
    peeked = true;
  }
  return after;
}

std::int64_t LoopContext::count(Render& render) {
  if (length) return *length;
  length = length_of(render, iterable);
  if (!length) {  // a generator: read it to its end
    std::vector<Value> rest;
    for (Value item; iterator->next(render, item);) {
      render.step();
      rest.push_back(item);
    }
    const bool has_after = peeked && !after.is(Kind::missing);
    length = static_cast<std::int64_t>(rest.size()) + index0 + 1 + (has_after ? 1 : 0);
    iterator = iterate(render, Value::list(std::move(rest)));
  }
  return *length;
}

void LoopContext::clear() {
  iterator.reset();
  iterable = before = current = after = last_changed = Value();
  definer.reset();
}

Value Render::make_macro(const MacroCode& code, const ActivationPtr& activation) {
  auto macro = make_mutable<Macro>();
  macro->code = &code;
  macro->definer = activation;
  return {Kind::macro, std::move(macro)};
}

void Render::macro_statement(const MacroStatement& node, const ActivationPtr& activation) {
  const Value macro = make_macro(node.macro, activation);
  slot(activation, node.ref) = macro;
  if (node.exported) exported_[node.macro.name] = macro;
}

void Render::call_block(const CallBlockStatement& node, const ActivationPtr& activation, StringBuilder& out) {
  const Value caller = make_macro(node.caller, activation);
  if (node.call) {
    append(out, evaluate_call(static_cast<const CallExpr&>(*node.call), activation, &caller));
  } else {
    append(out, call_macro(caller.as<Macro>(), {}));
  }
}

Value Render::call_macro(const Macro& macro, const Arguments& arguments) {
  const MacroCode& code = *macro.code;
  const std::size_t num_parameters = code.parameters.size();
  const ActivationPtr activation = new_activation(code.num_slots, macro.definer);
  const auto store = [&](VarRef ref, Value value) { slot(activation, ref) = std::move(value); };
  enter(code.frame, activation);

  std::vector<bool> used(arguments.keyword.size(), false);
  const auto take_keyword = [&](std::string_view name) {
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i] || arguments.keyword[i].first != name) continue;
      used[i] = true;
      return arguments.keyword[i].second;
    }
    return Value::missing();
  };
  for (std::size_t i = 0; i < num_parameters; ++i) {
    store(code.parameters[i].ref,
          i < arguments.positional.size() ? arguments.positional[i] : take_keyword(code.parameters[i].name));
  }
  if (code.caller) {
    Value caller = take_keyword("caller");
    const bool none = caller.is(Kind::missing) || caller.is_none();
    store(*code.caller, none ? Value::undefined("No caller defined") : std::move(caller));
  }
  Dict unused;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) set(unused, Value::string(arguments.keyword[i].first), arguments.keyword[i].second);
  }
  if (code.kwargs) {
    store(*code.kwargs, Value::dict(std::move(unused)));
  } else if (!unused.entries.empty()) {
    type_error("macro '" + code.name + "' takes no keyword argument '" +
               unused.entries[0].first.text().bytes + "'");
  }
  const bool has_more = arguments.positional.size() > num_parameters;
  if (code.varargs) {
    std::vector<Value> more;
    if (has_more) {
      more.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_parameters),
                  arguments.positional.end());
    }
    store(*code.varargs, Value::tuple(std::move(more)));
  } else if (has_more) {
    type_error("macro '" + code.name + "' takes not more than " + std::to_string(num_parameters) +
               " argument(s)");
  }

  if (++calls_ > options_.limits.max_depth) too_deep();
  for (const MacroCode::Parameter& parameter : code.parameters) {
    if (!slot(activation, parameter.ref).is(Kind::missing)) continue;
    store(parameter.ref, parameter.fallback
                             ? evaluate(*parameter.fallback, activation)
                             : Value::undefined("parameter '" + parameter.name + "' was not provided"));
  }
  StringBuilder out;
  execute(code.body, activation, out);
  --calls_;
  return out.take_charged();
}

Value Render::call_loop(LoopContext& context, const Arguments& arguments) {
  const Bound bound("loop", arguments, {"iterable"}, 1);
  if (context.recursion == nullptr) {
    type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  if (++calls_ > options_.limits.max_depth) too_deep();
  StringBuilder out;
  loop(*context.recursion, new_activation(context.recursion->num_slots, context.definer), context.definer,
       bound[0], context.depth0 + 1, out);
  --calls_;
  return out.take_charged();
}

}  // namespace pagoda::jinja
