// Execution of statements.
#include <algorithm>
#include <utility>

#include "jinja/context.h"
#include "jinja/globals.h"
#include "jinja/render.h"
#include "jinja/repr.h"

namespace pagoda::jinja {

// The items of a loop with an `if` clause, tested one by one as the loop requests them.
class LoopFilter final : public Iterator {
 public:
  LoopFilter(const ForStatement& node, ActivationPtr activation, std::shared_ptr<Iterator> items)
      : node_(node), activation_(std::move(activation)), items_(std::move(items)) {}

  bool next(Render& render, Value& out) override {
    if (!entered_) render.enter(node_.condition_frame, activation_);
    entered_ = true;
    while (items_->next(render, out)) {
      render.assign(node_.condition_target, out, activation_);
      if (truthy(render.evaluate(*node_.condition, activation_))) return true;
    }
    return false;
  }

 private:
  const ForStatement& node_;
  const ActivationPtr activation_;
  const std::shared_ptr<Iterator> items_;
  bool entered_ = false;
};

Render::Render(const TemplateCode& code, const TemplateOptions& options)
    : code_(code),
      options_(options),
      steps_left_(options.limits.max_steps),
      bytes_left_(kWorkFactor * static_cast<std::int64_t>(options.limits.max_output_bytes)),
      look_at_steps_(steps_left_),
      look_at_bytes_(bytes_left_) {
  if (options_.clock != nullptr) deadline_ = options_.clock->now() + options_.limits.max_time;
}

Render::~Render() {
  for (const auto& object : mutables_) object->clear();
}

void Render::look() {
  constexpr std::int64_t kSteps = 1024, kBytes = std::int64_t{1} << 18;  // tens of microseconds
  if (steps_left_ < 0 || bytes_left_ < 0) fail(ErrorKind::limit, "the template takes too many steps");
  const bool timed = options_.clock != nullptr && options_.limits.max_time > 0;
  if (timed && options_.clock->now() > deadline_) fail(ErrorKind::limit, "the template takes too long");
  look_at_steps_ = timed ? std::max<std::int64_t>(steps_left_ - kSteps, 0) : 0;
  look_at_bytes_ = timed ? std::max<std::int64_t>(bytes_left_ - kBytes, 0) : 0;
}
void Render::too_deep() const { fail(ErrorKind::limit, "the template is nested too deeply"); }
void Render::check_size(std::size_t num_bytes) const {
  if (num_bytes > options_.limits.max_output_bytes) {
    fail(ErrorKind::limit, "the template's output is too long (more than " +
                               std::to_string(options_.limits.max_output_bytes) + " bytes)");
  }
}
void Render::check_count(std::size_t num_items) const {
  if (num_items > kMaxWeight) fail(ErrorKind::limit, "a list is too long");
}

RenderedText Render::run(const boost::json::object& context) {
  add_globals(context_);
  for (const auto& member : context) {
    context_[std::string(member.key())] = from_json(member.value(), !member.key().ends_with("_token"));
  }
  const ActivationPtr activation = new_activation(code_.num_slots, nullptr);
  StringBuilder out;
  enter(code_.frame, activation);
  execute(code_.body, activation, out);
  return {out.take_bytes(), out.take_user()};
}

ActivationPtr Render::new_activation(int num_slots, ActivationPtr parent) {
  auto activation = std::make_shared<Activation>();
  activation->slots.assign(static_cast<std::size_t>(num_slots), Value::missing());
  activation->parent = std::move(parent);
  return activation;
}

Value& Render::slot(const ActivationPtr& activation, VarRef ref) {
  Activation* owner = activation.get();
  for (int hop = 0; hop < ref.hops; ++hop) owner = owner->parent.get();
  return owner->slots[static_cast<std::size_t>(ref.slot)];
}

Value Render::resolve(const std::string& name) const {
  if (const auto found = exported_.find(name); found != exported_.end()) return found->second;
  if (const auto found = context_.find(name); found != context_.end()) return found->second;
  return Value::missing();
}

void Render::enter(const FrameCode& frame, const ActivationPtr& activation) {
  for (const FrameCode::Load& load : frame.loads) {
    Value value = load.action == FrameCode::Action::resolve ? resolve(load.name)
                  : load.action == FrameCode::Action::alias ? slot(activation, load.from)
                                                            : Value::missing();
    activation->slots[static_cast<std::size_t>(load.slot)] = std::move(value);
  }
}

void Render::leave(const FrameCode& frame, const ActivationPtr& activation) {
  for (const int slot : frame.clear) activation->slots[static_cast<std::size_t>(slot)] = Value::missing();
}

void Render::assign(const Target& target, const Value& value, const ActivationPtr& activation) {
  switch (target.kind) {
    case Target::Kind::name:
      slot(activation, target.ref) = value;
      return;
    case Target::Kind::attribute: {
      if (target.attribute.starts_with('_')) {
        fail(ErrorKind::security,
             "a namespace has no underscore-prefixed attributes: '" + target.attribute + "'");
      }
      set(slot(activation, target.ref).as<Namespace>().attributes, Value::string(target.attribute), value);
      return;
    }
    case Target::Kind::tuple: {
      if (value.is_undefined() && !target.items.empty()) value_error("not enough values to unpack");
      const std::shared_ptr<Iterator> items = iterate(*this, value);
      std::vector<Value> values;
      for (Value item; items->next(*this, item);) {
        if (values.size() == target.items.size()) value_error("too many values to unpack");
        values.push_back(std::move(item));
      }
      if (values.size() < target.items.size()) value_error("not enough values to unpack");
      for (std::size_t i = 0; i < values.size(); ++i) assign(target.items[i], values[i], activation);
      return;
    }
  }
}

void Render::check_namespaces(const Target& target, const ActivationPtr& activation) {
  if (target.kind == Target::Kind::attribute && !slot(activation, target.ref).is(Kind::name_space)) {
    fail(ErrorKind::runtime, "cannot assign attribute on non-namespace object");
  }
  for (const Target& item : target.items) check_namespaces(item, activation);
}

void Render::export_target(const Target& target, const ActivationPtr& activation) {
  if (target.kind == Target::Kind::name) exported_[target.name] = slot(activation, target.ref);
  for (const Target& item : target.items) export_target(item, activation);
}

void Render::append(StringBuilder& out, const Value& value) {
  append_string(*this, out, value);
  check_size(out.size());
}

Render::Flow Render::execute(const Body& body, const ActivationPtr& activation, StringBuilder& out) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement, activation, out);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Render::Flow Render::execute(const Statement& node, const ActivationPtr& activation, StringBuilder& out) {
  const Depth depth(*this);
  step();
  try {
    switch (node.kind) {
      case StatementKind::output:
        output(static_cast<const OutputStatement&>(node), activation, out);
        return Flow::normal;
      case StatementKind::if_:
        return if_statement(static_cast<const IfStatement&>(node), activation, out);
      case StatementKind::for_:
        return for_statement(static_cast<const ForStatement&>(node), activation, out);
      case StatementKind::set:
        set_statement(static_cast<const SetStatement&>(node), activation);
        return Flow::normal;
      case StatementKind::set_block:
        return set_block(static_cast<const SetBlockStatement&>(node), activation);
      case StatementKind::macro:
        macro_statement(static_cast<const MacroStatement&>(node), activation);
        return Flow::normal;
      case StatementKind::call_block:
        call_block(static_cast<const CallBlockStatement&>(node), activation, out);
        return Flow::normal;
      case StatementKind::filter_block:
        return filter_block(static_cast<const FilterBlockStatement&>(node), activation, out);
      case StatementKind::with:
        return with_statement(static_cast<const WithStatement&>(node), activation, out);
      case StatementKind::break_:
        return Flow::break_;
      case StatementKind::continue_:
        return Flow::continue_;
      case StatementKind::block:
        block(static_cast<const BlockStatement&>(node), out);
        return Flow::normal;
      case StatementKind::unsupported:
        fail(ErrorKind::limit, "the tag '" + static_cast<const UnsupportedStatement&>(node).tag +
                                   "' is not supported: a chat template is one file");
    }
  } catch (TemplateError& error) {
    if (error.line() == 0) error.set_line(node.line);
    throw;
  }
  return Flow::normal;
}

void Render::output(const OutputStatement& node, const ActivationPtr& activation, StringBuilder& out) {
  for (const OutputStatement::Part& part : node.parts) {
    if (part.expr) {
      try {
        append(out, evaluate(*part.expr, activation));
      } catch (TemplateError& error) {
        if (error.line() == 0) error.set_line(part.expr->line);
        throw;
      }
    } else {
      work(part.data.size());
      out.append(part.data);
      check_size(out.size());
    }
  }
}

Render::Flow Render::if_statement(const IfStatement& node, const ActivationPtr& activation,
                                  StringBuilder& out) {
  for (const auto& [condition, body] : node.branches) {
    if (truthy(evaluate(*condition, activation))) return execute(body, activation, out);
  }
  return execute(node.otherwise, activation, out);
}

Render::Flow Render::for_statement(const ForStatement& node, const ActivationPtr& activation,
                                   StringBuilder& out) {
  const Value iterable = evaluate(*node.iterable, activation);
  if (!node.recursive) return loop(node, activation, activation, iterable, 0, out);
  loop(node, new_activation(node.num_slots, activation), activation, iterable, 0, out);
  return Flow::normal;
}

Render::Flow Render::loop(const ForStatement& node, const ActivationPtr& activation,
                          const ActivationPtr& definer, const Value& iterable, std::int64_t depth0,
                          StringBuilder& out) {
  std::shared_ptr<Iterator> items = iterate(*this, iterable);
  if (node.condition) {
    items =
        std::make_shared<LoopFilter>(node, new_activation(node.condition_slots, definer), std::move(items));
  }
  std::shared_ptr<LoopContext> context;
  if (node.extended) {
    context = make_mutable<LoopContext>();
    context->iterator = items;
    if (!node.condition) context->iterable = iterable;  // otherwise None, which has no length
    context->depth0 = depth0;
    if (node.recursive) {
      context->recursion = &node;
      context->definer = definer;
    }
  }
  bool completed_one = false;  // as in jinja2, an iteration that ends in break or continue does not count
  Flow flow = Flow::normal;
  for (Value item; context ? context->advance(*this, item) : items->next(*this, item);) {
    step();
    assign(node.target, item, activation);
    if (context) slot(activation, node.loop) = Value(Kind::loop, context);
    enter(node.body_frame, activation);
    flow = execute(node.body, activation, out);
    if (flow == Flow::break_) break;
    if (flow == Flow::normal) completed_one = true;
  }
  leave(node.body_frame, activation);
  flow = Flow::normal;
  if (!completed_one && !node.otherwise.empty()) {
    enter(node.otherwise_frame, activation);
    flow = execute(node.otherwise, activation, out);
    leave(node.otherwise_frame, activation);
  }
  return flow;
}

void Render::set_statement(const SetStatement& node, const ActivationPtr& activation) {
  check_namespaces(node.target, activation);
  assign(node.target, evaluate(*node.value, activation), activation);
  if (node.exported) export_target(node.target, activation);
}

Render::Flow Render::set_block(const SetBlockStatement& node, const ActivationPtr& activation) {
  StringBuilder captured;
  enter(node.frame, activation);
  const Flow flow = execute(node.body, activation, captured);
  if (flow != Flow::normal) return flow;
  Value value = captured.take_charged();
  if (node.filter) value = evaluate_filters(static_cast<const FilterExpr&>(*node.filter), value, activation);
  check_namespaces(node.target, activation);
  assign(node.target, value, activation);
  if (node.exported) export_target(node.target, activation);
  leave(node.frame, activation);
  return Flow::normal;
}

Render::Flow Render::filter_block(const FilterBlockStatement& node, const ActivationPtr& activation,
                                  StringBuilder& out) {
  StringBuilder captured;
  enter(node.frame, activation);
  const Flow flow = execute(node.body, activation, captured);
  if (flow != Flow::normal) return flow;
  append(out,
         evaluate_filters(static_cast<const FilterExpr&>(*node.filter), captured.take_charged(), activation));
  leave(node.frame, activation);
  return Flow::normal;
}

Render::Flow Render::with_statement(const WithStatement& node, const ActivationPtr& activation,
                                    StringBuilder& out) {
  enter(node.frame, activation);
  for (const auto& [target, value] : node.assignments)
    assign(target, evaluate(*value, activation), activation);
  const Flow flow = execute(node.body, activation, out);
  if (flow == Flow::normal) leave(node.frame, activation);
  return flow;
}

void Render::block(const BlockStatement& node, StringBuilder& out) {
  const ActivationPtr activation = new_activation(node.num_slots, nullptr);
  enter(node.frame, activation);
  execute(node.body, activation, out);
}

}  // namespace pagoda::jinja
