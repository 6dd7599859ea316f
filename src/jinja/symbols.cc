#include "jinja/symbols.h"

#include <utility>

namespace pagoda::jinja {

Found Symbols::find_ref(const std::string& name) {
  for (Symbols* symbols = this; symbols != nullptr; symbols = symbols->parent) {
    const auto found = symbols->refs.find(name);
    if (found != symbols->refs.end()) return {symbols, found->second};
  }
  return {};
}

std::string Symbols::define(const std::string& name, Load load) {
  std::string identifier = std::to_string(level) + "_" + name;
  refs[name] = identifier;
  loads[identifier] = std::move(load);
  return identifier;
}

void Symbols::store(const std::string& name) {
  stores.insert(name);
  if (refs.contains(name)) return;
  if (parent != nullptr) {
    if (Found outer = parent->find_ref(name); outer.symbols != nullptr) {
      define(name, {LoadAction::alias, "", std::move(outer)});
      return;
    }
  }
  define(name, {LoadAction::undefined, "", {}});
}

void Symbols::parameter(const std::string& name) {
  stores.insert(name);
  define(name, {LoadAction::parameter, "", {}});
}

void Symbols::load(const std::string& name) {
  if (find_ref(name).symbols == nullptr) define(name, {LoadAction::resolve, name, {}});
}

void Symbols::join(const std::vector<Symbols>& branches) {
  std::set<std::string> stored;
  for (const Symbols& branch : branches) stored.insert(branch.stores.begin(), branch.stores.end());
  for (const std::string& name : stores) stored.erase(name);
  for (const Symbols& branch : branches) {
    for (const auto& [name, identifier] : branch.refs) refs[name] = identifier;
    for (const auto& [identifier, load] : branch.loads) loads[identifier] = load;
    stores.insert(branch.stores.begin(), branch.stores.end());
  }
  for (const std::string& name : stored) {
    const std::string identifier = find_ref(name).identifier;
    Found outer = parent == nullptr ? Found{} : parent->find_ref(name);
    loads[identifier] = outer.symbols != nullptr ? Load{LoadAction::alias, "", std::move(outer)}
                                                 : Load{LoadAction::resolve, name, {}};
  }
}

void SymbolVisitor::arguments(const CallArguments& arguments) {
  for (const ExprPtr& argument : arguments.positional) expr(argument.get());
  for (const auto& [name, argument] : arguments.keyword) expr(argument.get());
  expr(arguments.more_positional.get());
  expr(arguments.more_keyword.get());
}

void SymbolVisitor::expr(const Expr* node) {
  if (node == nullptr) return;
  switch (node->kind) {
    case ExprKind::constant:
      return;
    case ExprKind::name:
      return symbols_->load(static_cast<const NameExpr*>(node)->name);
    case ExprKind::tuple:
    case ExprKind::list:
    case ExprKind::concat:
      for (const ExprPtr& item : static_cast<const SequenceExpr*>(node)->items) expr(item.get());
      return;
    case ExprKind::dict:
      for (const auto& [key, value] : static_cast<const DictExpr*>(node)->entries) {
        expr(key.get());
        expr(value.get());
      }
      return;
    case ExprKind::unary:
      return expr(static_cast<const UnaryExpr*>(node)->operand.get());
    case ExprKind::binary:
      expr(static_cast<const BinaryExpr*>(node)->left.get());
      return expr(static_cast<const BinaryExpr*>(node)->right.get());
    case ExprKind::logical:
      expr(static_cast<const LogicalExpr*>(node)->left.get());
      return expr(static_cast<const LogicalExpr*>(node)->right.get());
    case ExprKind::compare:
      expr(static_cast<const CompareExpr*>(node)->first.get());
      for (const auto& [op, operand] : static_cast<const CompareExpr*>(node)->rest) expr(operand.get());
      return;
    case ExprKind::conditional:
      expr(static_cast<const ConditionalExpr*>(node)->condition.get());
      expr(static_cast<const ConditionalExpr*>(node)->then.get());
      return expr(static_cast<const ConditionalExpr*>(node)->otherwise.get());
    case ExprKind::attribute:
      return expr(static_cast<const AttributeExpr*>(node)->object.get());
    case ExprKind::item:
      expr(static_cast<const ItemExpr*>(node)->object.get());
      return expr(static_cast<const ItemExpr*>(node)->key.get());
    case ExprKind::slice: {
      const auto& slice = static_cast<const SliceExpr&>(*node);
      for (const Expr* part : {slice.object.get(), slice.start.get(), slice.stop.get(), slice.step.get()})
        expr(part);
      return;
    }
    case ExprKind::call:
      expr(static_cast<const CallExpr*>(node)->callee.get());
      return arguments(static_cast<const CallExpr*>(node)->arguments);
    case ExprKind::filter:
    case ExprKind::test:
      expr(static_cast<const FilterExpr*>(node)->value.get());
      return arguments(static_cast<const FilterExpr*>(node)->arguments);
  }
}

void SymbolVisitor::target(const Target& node, bool as_parameter) {
  switch (node.kind) {
    case Target::Kind::name:
      return as_parameter ? symbols_->parameter(node.name) : symbols_->store(node.name);
    case Target::Kind::attribute:
      return symbols_->load(node.name);
    case Target::Kind::tuple:
      for (const Target& item : node.items) target(item, as_parameter);
  }
}

void SymbolVisitor::body(const Body& nodes) {
  for (const auto& node : nodes) statement(*node);
}

void SymbolVisitor::statement(const Statement& node) {
  switch (node.kind) {
    case StatementKind::output:
      for (const auto& part : static_cast<const OutputStatement&>(node).parts) expr(part.expr.get());
      return;
    case StatementKind::if_:
      return if_branches(static_cast<const IfStatement&>(node));
    case StatementKind::for_:
      return expr(static_cast<const ForStatement&>(node).iterable.get());
    case StatementKind::set:
      expr(static_cast<const SetStatement&>(node).value.get());
      return target(static_cast<const SetStatement&>(node).target, false);
    case StatementKind::set_block: {
      const auto& set = static_cast<const SetBlockStatement&>(node);
      target(set.target, false);
      return;
    }
    case StatementKind::macro:
      return symbols_->store(static_cast<const MacroStatement&>(node).macro.name);
    case StatementKind::call_block:
      return expr(static_cast<const CallBlockStatement&>(node).call.get());
    case StatementKind::filter_block:
      return expr(static_cast<const FilterBlockStatement&>(node).filter.get());
    case StatementKind::with:
      for (const auto& [name, value] : static_cast<const WithStatement&>(node).assignments) expr(value.get());
      return;
    case StatementKind::break_:
    case StatementKind::continue_:
    case StatementKind::block:
    case StatementKind::unsupported:
      return;
  }
}

void SymbolVisitor::if_branches(const IfStatement& node) {
  expr(node.branches.front().first.get());
  Symbols* const original = symbols_;
  const auto in_copy = [&](const auto& visit) {
    Symbols copy = *original;
    symbols_ = &copy;
    visit();
    symbols_ = original;
    return copy;
  };
  std::vector<Symbols> branches;
  branches.push_back(in_copy([&] { body(node.branches.front().second); }));
  branches.push_back(in_copy([&] {
    for (std::size_t i = 1; i < node.branches.size(); ++i) {
      expr(node.branches[i].first.get());
      Symbols* const outer = symbols_;
      Symbols inner = *outer;
      const Symbols untouched = *outer;
      symbols_ = &inner;
      body(node.branches[i].second);
      symbols_ = outer;
      outer->join({inner, untouched, untouched});
    }
  }));
  branches.push_back(in_copy([&] { body(node.otherwise); }));
  symbols_->join(branches);
}

void UndeclaredVisitor::body(const Body& nodes) {
  for (const auto& node : nodes) statement(*node);
}

void UndeclaredVisitor::load(const std::string& name) {
  if (wanted_.contains(name)) undeclared_.insert(name);
}

void UndeclaredVisitor::store(const Target& node) {
  if (node.kind == Target::Kind::name) wanted_.erase(node.name);
  for (const Target& item : node.items) store(item);
}

void UndeclaredVisitor::expr(const Expr* node) {
  Symbols found;
  SymbolVisitor(found).expr(node);
  for (const auto& [name, identifier] : found.refs) load(name);
}

void UndeclaredVisitor::macro(const MacroCode& code) {
  for (const auto& parameter : code.parameters) wanted_.erase(parameter.name);
  for (const auto& parameter : code.parameters) expr(parameter.fallback.get());
  body(code.body);
}

void UndeclaredVisitor::statement(const Statement& node) {
  switch (node.kind) {
    case StatementKind::output:
      for (const auto& part : static_cast<const OutputStatement&>(node).parts) expr(part.expr.get());
      return;
    case StatementKind::if_: {
      const auto& branch = static_cast<const IfStatement&>(node);
      for (const auto& [condition, inner] : branch.branches) {
        expr(condition.get());
        body(inner);
      }
      return body(branch.otherwise);
    }
    case StatementKind::for_: {
      const auto& loop = static_cast<const ForStatement&>(node);
      store(loop.target);
      expr(loop.iterable.get());
      body(loop.body);
      body(loop.otherwise);
      return expr(loop.condition.get());
    }
    case StatementKind::set:
      store(static_cast<const SetStatement&>(node).target);
      return expr(static_cast<const SetStatement&>(node).value.get());
    case StatementKind::set_block:
      store(static_cast<const SetBlockStatement&>(node).target);
      expr(static_cast<const SetBlockStatement&>(node).filter.get());
      return body(static_cast<const SetBlockStatement&>(node).body);
    case StatementKind::macro:
      return macro(static_cast<const MacroStatement&>(node).macro);
    case StatementKind::call_block:
      expr(static_cast<const CallBlockStatement&>(node).call.get());
      return macro(static_cast<const CallBlockStatement&>(node).caller);
    case StatementKind::filter_block:
      body(static_cast<const FilterBlockStatement&>(node).body);
      return expr(static_cast<const FilterBlockStatement&>(node).filter.get());
    case StatementKind::with:
      for (const auto& [name, value] : static_cast<const WithStatement&>(node).assignments) store(name);
      for (const auto& [name, value] : static_cast<const WithStatement&>(node).assignments) expr(value.get());
      return body(static_cast<const WithStatement&>(node).body);
    case StatementKind::break_:
    case StatementKind::continue_:
    case StatementKind::block:
    case StatementKind::unsupported:
      return;
  }
}

}  // namespace pagoda::jinja
