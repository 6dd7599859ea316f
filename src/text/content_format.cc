#include "text/content_format.h"

#include <set>
#include <string>

namespace pagoda::jinja {
namespace {

class Finder {
 public:
  ContentUse run(const TemplateCode& code) {
    // Twice: a macro may loop over a name that is only set further down.
    body(code.body);
    body(code.body);
    return use_;
  }

 private:
  // message.content, message['content'], a name set to one of these, or any of them behind filters.
  bool is_content(const Expr* node) const {
    if (node == nullptr) return false;
    switch (node->kind) {
      case ExprKind::name:
        return names_.contains(static_cast<const NameExpr*>(node)->name);
      case ExprKind::attribute:
        return static_cast<const AttributeExpr*>(node)->name.text().bytes == "content";
      case ExprKind::item: {
        const Expr& key = *static_cast<const ItemExpr*>(node)->key;
        if (key.kind != ExprKind::constant) return false;
        const Value& value = static_cast<const ConstantExpr&>(key).value;
        return value.is_string() && value.text().bytes == "content";
      }
      case ExprKind::filter:
        return is_content(static_cast<const FilterExpr*>(node)->value.get());
      case ExprKind::slice:
        return is_content(static_cast<const SliceExpr*>(node)->object.get());
      case ExprKind::conditional:
        return is_content(static_cast<const ConditionalExpr*>(node)->then.get()) ||
               is_content(static_cast<const ConditionalExpr*>(node)->otherwise.get());
      default:
        return false;
    }
  }

  void all(const std::vector<ExprPtr>& nodes) {
    for (const ExprPtr& node : nodes) expr(node.get());
  }
  void arguments(const CallArguments& nodes) {
    all(nodes.positional);
    for (const auto& [name, value] : nodes.keyword) expr(value.get());
  }

  void expr(const Expr* node) {  // looks for `is string`, and for content handed to a macro
    if (node == nullptr) return;
    switch (node->kind) {
      case ExprKind::tuple:
      case ExprKind::list:
      case ExprKind::concat:
        return all(static_cast<const SequenceExpr*>(node)->items);
      case ExprKind::unary:
        return expr(static_cast<const UnaryExpr*>(node)->operand.get());
      case ExprKind::binary:
        expr(static_cast<const BinaryExpr*>(node)->left.get());
        return expr(static_cast<const BinaryExpr*>(node)->right.get());
      case ExprKind::logical:
        expr(static_cast<const LogicalExpr*>(node)->left.get());
        return expr(static_cast<const LogicalExpr*>(node)->right.get());
      case ExprKind::conditional:
        expr(static_cast<const ConditionalExpr*>(node)->condition.get());
        expr(static_cast<const ConditionalExpr*>(node)->then.get());
        return expr(static_cast<const ConditionalExpr*>(node)->otherwise.get());
      case ExprKind::call: {
        const auto& call = static_cast<const CallExpr&>(*node);
        expr(call.callee.get());
        arguments(call.arguments);
        if (call.callee->kind != ExprKind::name) return;
        const std::string& name = static_cast<const NameExpr&>(*call.callee).name;
        for (std::size_t i = 0; i < call.arguments.positional.size(); ++i) {
          if (is_content(call.arguments.positional[i].get())) content_arguments_.emplace(name, i);
        }
        return;
      }
      case ExprKind::filter:
      case ExprKind::test: {
        const auto& filter = static_cast<const FilterExpr&>(*node);
        if (node->kind == ExprKind::test && filter.name == "string") use_.tests_string = true;
        expr(filter.value.get());
        return arguments(filter.arguments);
      }
      default:
        return;
    }
  }

  void macro(const MacroCode& code) {
    for (std::size_t i = 0; i < code.parameters.size(); ++i) {
      if (content_arguments_.contains({code.name, i})) names_.insert(code.parameters[i].name);
    }
    body(code.body);
  }

  void body(const Body& nodes) {
    for (const auto& node : nodes) statement(*node);
  }

  void statement(const Statement& node) {
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
        if (is_content(loop.iterable.get())) use_.iterates = true;
        body(loop.body);
        return body(loop.otherwise);
      }
      case StatementKind::set: {
        const auto& set = static_cast<const SetStatement&>(node);
        expr(set.value.get());
        if (set.target.kind == Target::Kind::name && is_content(set.value.get()))
          names_.insert(set.target.name);
        return;
      }
      case StatementKind::set_block:
        return body(static_cast<const SetBlockStatement&>(node).body);
      case StatementKind::macro:
        return macro(static_cast<const MacroStatement&>(node).macro);
      case StatementKind::call_block:
        expr(static_cast<const CallBlockStatement&>(node).call.get());
        return macro(static_cast<const CallBlockStatement&>(node).caller);
      case StatementKind::filter_block:
        return body(static_cast<const FilterBlockStatement&>(node).body);
      case StatementKind::with:
        return body(static_cast<const WithStatement&>(node).body);
      case StatementKind::block:
        return body(static_cast<const BlockStatement&>(node).body);
      default:
        return;
    }
  }

  ContentUse use_;
  std::set<std::string> names_;                                      // set to a message's content
  std::set<std::pair<std::string, std::size_t>> content_arguments_;  // macro, position
};

}  // namespace

ContentUse find_content_use(const TemplateCode& code) { return Finder().run(code); }

}  // namespace pagoda::jinja
