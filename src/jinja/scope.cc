#include "jinja/scope.h"

#include <deque>
#include <set>
#include <utility>

#include "jinja/symbols.h"

namespace pagoda::jinja {
namespace {

struct Frame {
  Symbols* symbols = nullptr;
  bool top_level = false;
  bool soft = false;  // inside an `if`: an unknown filter is an error only when executed
  Frame softened() const { return {symbols, top_level, true}; }
};

class Resolver {
 public:
  explicit Resolver(const KnownNames& known) : known_(known) {}

  void run(TemplateCode& code) {
    FunctionScope& function = new_function(nullptr);
    Symbols& symbols = new_symbols(nullptr, function);
    SymbolVisitor(symbols).body(code.body);
    function_ = &function;
    body(code.body, {&symbols, true, false});
    code.frame = frame_code(symbols);
    code.num_slots = static_cast<int>(function.slots.size());
  }

 private:
  FunctionScope& new_function(FunctionScope* parent) {
    functions_.emplace_back();
    functions_.back().parent = parent;
    return functions_.back();
  }
  Symbols& new_symbols(Symbols* parent, FunctionScope& function) {
    symbols_.emplace_back();
    Symbols& symbols = symbols_.back();
    symbols.parent = parent;
    symbols.function = &function;
    symbols.level = parent == nullptr ? 0 : parent->level + 1;
    return symbols;
  }

  VarRef place(const Found& found) const {
    VarRef ref;
    for (FunctionScope* f = function_; f != found.symbols->function; f = f->parent) ++ref.hops;
    ref.slot = found.symbols->function->slot(found.identifier);
    return ref;
  }
  VarRef place(const std::string& name, Symbols& symbols) const {
    Found found = symbols.find_ref(name);
    if (found.symbols == nullptr) {  // jinja2 fails here; an ordinary lookup does no harm
      symbols.load(name);
      found = symbols.find_ref(name);
    }
    return place(found);
  }

  FrameCode frame_code(const Symbols& symbols) const {
    FrameCode code;
    for (const auto& [identifier, load] : symbols.loads) {
      const int slot = symbols.function->slot(identifier);
      code.clear.push_back(slot);
      switch (load.action) {
        case LoadAction::parameter:
          break;
        case LoadAction::resolve:
          code.loads.push_back({slot, FrameCode::Action::resolve, load.name, {}});
          break;
        case LoadAction::alias:
          code.loads.push_back({slot, FrameCode::Action::alias, "", place(load.outer)});
          break;
        case LoadAction::undefined:
          code.loads.push_back({slot, FrameCode::Action::forget, "", {}});
          break;
      }
    }
    return code;
  }

  [[noreturn]] static void fail_at(int line, std::string message) {
    throw TemplateError(ErrorKind::syntax, std::move(message), line);
  }

  void arguments(CallArguments& arguments, const Frame& frame) {
    for (const ExprPtr& argument : arguments.positional) expr(argument.get(), frame);
    for (const auto& [name, argument] : arguments.keyword) expr(argument.get(), frame);
    expr(arguments.more_positional.get(), frame);
    expr(arguments.more_keyword.get(), frame);
  }

  void expr(Expr* node, const Frame& frame) {
    if (node == nullptr) return;
    switch (node->kind) {
      case ExprKind::constant:
        return;
      case ExprKind::name: {
        auto& name = static_cast<NameExpr&>(*node);
        name.ref = place(name.name, *frame.symbols);
        return;
      }
      case ExprKind::tuple:
      case ExprKind::list:
      case ExprKind::concat:
        for (const ExprPtr& item : static_cast<SequenceExpr*>(node)->items) expr(item.get(), frame);
        return;
      case ExprKind::dict:
        for (const auto& [key, value] : static_cast<DictExpr*>(node)->entries) {
          expr(key.get(), frame);
          expr(value.get(), frame);
        }
        return;
      case ExprKind::unary:
        return expr(static_cast<UnaryExpr*>(node)->operand.get(), frame);
      case ExprKind::binary:
        expr(static_cast<BinaryExpr*>(node)->left.get(), frame);
        return expr(static_cast<BinaryExpr*>(node)->right.get(), frame);
      case ExprKind::logical:
        expr(static_cast<LogicalExpr*>(node)->left.get(), frame);
        return expr(static_cast<LogicalExpr*>(node)->right.get(), frame);
      case ExprKind::compare:
        expr(static_cast<CompareExpr*>(node)->first.get(), frame);
        for (const auto& [op, operand] : static_cast<CompareExpr*>(node)->rest) expr(operand.get(), frame);
        return;
      case ExprKind::conditional: {
        const auto& conditional = static_cast<ConditionalExpr&>(*node);
        const Frame soft = frame.softened();
        for (Expr* part :
             {conditional.condition.get(), conditional.then.get(), conditional.otherwise.get()}) {
          expr(part, soft);
        }
        return;
      }
      case ExprKind::attribute:
        return expr(static_cast<AttributeExpr*>(node)->object.get(), frame);
      case ExprKind::item:
        expr(static_cast<ItemExpr*>(node)->object.get(), frame);
        return expr(static_cast<ItemExpr*>(node)->key.get(), frame);
      case ExprKind::slice: {
        const auto& slice = static_cast<SliceExpr&>(*node);
        for (Expr* part : {slice.object.get(), slice.start.get(), slice.stop.get(), slice.step.get()}) {
          expr(part, frame);
        }
        return;
      }
      case ExprKind::call:
        expr(static_cast<CallExpr*>(node)->callee.get(), frame);
        return arguments(static_cast<CallExpr*>(node)->arguments, frame);
      case ExprKind::filter:
      case ExprKind::test: {
        auto& filter = static_cast<FilterExpr&>(*node);
        const bool is_filter = node->kind == ExprKind::filter;
        if (!frame.soft && !(is_filter ? known_.is_filter(filter.name) : known_.is_test(filter.name))) {
          fail_at(node->line,
                  std::string("No ") + (is_filter ? "filter" : "test") + " named '" + filter.name + "'.");
        }
        expr(filter.value.get(), frame);
        return arguments(filter.arguments, frame);
      }
    }
  }

  void target(Target& node, Symbols& symbols) {
    if (node.kind == Target::Kind::tuple) {
      for (Target& item : node.items) target(item, symbols);
    } else {
      node.ref = place(node.name, symbols);
    }
  }

  void body(Body& nodes, const Frame& frame) {
    for (const auto& node : nodes) statement(*node, frame);
  }

  void macro(MacroCode& code, const Frame& frame, int line) {
    FunctionScope& function = new_function(function_);
    Symbols& symbols = new_symbols(frame.symbols, function);
    const auto analyze = [&] {
      SymbolVisitor visitor(symbols);
      for (const auto& parameter : code.parameters) symbols.parameter(parameter.name);
      for (const auto& parameter : code.parameters) visitor.expr(parameter.fallback.get());
      visitor.body(code.body);
    };
    analyze();
    UndeclaredVisitor undeclared({"caller", "kwargs", "varargs"});
    undeclared.body(code.body);
    const auto declares = [&](std::string_view name) {
      for (const auto& parameter : code.parameters) {
        if (parameter.name == name) return true;
      }
      return false;
    };
    bool uses_caller = undeclared.loads("caller");
    if (uses_caller && declares("caller")) {
      for (const auto& parameter : code.parameters) {
        if (parameter.name == "caller" && !parameter.fallback) {
          fail_at(line, "the special \"caller\" argument must be omitted or be given a default.");
        }
      }
      uses_caller = false;
    }
    const bool uses_kwargs = undeclared.loads("kwargs") && !declares("kwargs");
    const bool uses_varargs = undeclared.loads("varargs") && !declares("varargs");
    if (uses_caller) symbols.parameter("caller");
    if (uses_kwargs) symbols.parameter("kwargs");
    if (uses_varargs) symbols.parameter("varargs");

    FunctionScope* const outer = std::exchange(function_, &function);
    const Frame inner{&symbols, false, false};
    if (uses_caller) code.caller = place("caller", symbols);
    if (uses_kwargs) code.kwargs = place("kwargs", symbols);
    if (uses_varargs) code.varargs = place("varargs", symbols);
    for (auto& parameter : code.parameters) {
      parameter.ref = place(parameter.name, symbols);
      expr(parameter.fallback.get(), inner);
    }
    body(code.body, inner);
    code.frame = frame_code(symbols);
    code.num_slots = static_cast<int>(function.slots.size());
    function_ = outer;
  }

  static bool stores_loop(const Target& target) {
    if (target.kind == Target::Kind::name) return target.name == "loop";
    for (const Target& item : target.items) {
      if (stores_loop(item)) return true;
    }
    return false;
  }
  static void refuse_stored_loop(const Body& nodes, int line) {
    const auto refuse = [line] { fail_at(line, "Can't assign to special loop variable in for-loop target"); };
    for (const auto& node : nodes) {
      switch (node->kind) {
        case StatementKind::if_: {
          const auto& branch = static_cast<const IfStatement&>(*node);
          for (const auto& [condition, inner] : branch.branches) refuse_stored_loop(inner, line);
          refuse_stored_loop(branch.otherwise, line);
          break;
        }
        case StatementKind::for_: {
          const auto& loop = static_cast<const ForStatement&>(*node);
          if (stores_loop(loop.target)) refuse();
          refuse_stored_loop(loop.body, line);
          refuse_stored_loop(loop.otherwise, line);
          break;
        }
        case StatementKind::set:
          if (stores_loop(static_cast<const SetStatement&>(*node).target)) refuse();
          break;
        case StatementKind::set_block:
          if (stores_loop(static_cast<const SetBlockStatement&>(*node).target)) refuse();
          refuse_stored_loop(static_cast<const SetBlockStatement&>(*node).body, line);
          break;
        case StatementKind::macro:
          refuse_stored_loop(static_cast<const MacroStatement&>(*node).macro.body, line);
          break;
        case StatementKind::call_block:
          refuse_stored_loop(static_cast<const CallBlockStatement&>(*node).caller.body, line);
          break;
        case StatementKind::filter_block:
          refuse_stored_loop(static_cast<const FilterBlockStatement&>(*node).body, line);
          break;
        case StatementKind::with:
          refuse_stored_loop(static_cast<const WithStatement&>(*node).body, line);
          break;
        default:
          break;
      }
    }
  }

  void for_loop(ForStatement& node, const Frame& frame) {
    if (stores_loop(node.target))
      fail_at(node.line, "Can't assign to special loop variable in for-loop target");
    refuse_stored_loop(node.body, node.line);
    refuse_stored_loop(node.otherwise, node.line);
    expr(node.iterable.get(), frame);

    if (node.condition) {  // jinja2 makes the condition a separate generator
      FunctionScope& function = new_function(function_);
      Symbols& symbols = new_symbols(frame.symbols, function);
      SymbolVisitor visitor(symbols);
      visitor.target(node.target, true);
      visitor.expr(node.condition.get());
      FunctionScope* const outer = std::exchange(function_, &function);
      node.condition_target = node.target;
      target(node.condition_target, symbols);
      expr(node.condition.get(), {&symbols, false, false});
      node.condition_frame = frame_code(symbols);
      node.condition_slots = static_cast<int>(function.slots.size());
      function_ = outer;
    }

    UndeclaredVisitor undeclared({"loop"});
    undeclared.body(node.body);
    node.extended = node.recursive || undeclared.loads("loop");
    FunctionScope& function = node.recursive ? new_function(function_) : *function_;
    Symbols& symbols = new_symbols(frame.symbols, function);
    if (node.extended) symbols.parameter("loop");
    SymbolVisitor visitor(symbols);
    visitor.target(node.target, true);
    visitor.body(node.body);
    Symbols& else_symbols = new_symbols(frame.symbols, function);
    SymbolVisitor(else_symbols).body(node.otherwise);

    FunctionScope* const outer = std::exchange(function_, &function);
    if (node.extended) node.loop = place("loop", symbols);
    target(node.target, symbols);
    ++function.loops;
    body(node.body, {&symbols, false, false});
    --function.loops;
    node.body_frame = frame_code(symbols);
    body(node.otherwise, {&else_symbols, false, false});
    node.otherwise_frame = frame_code(else_symbols);
    if (node.recursive) node.num_slots = static_cast<int>(function.slots.size());
    function_ = outer;
  }

  void statement(Statement& node, const Frame& frame) {
    switch (node.kind) {
      case StatementKind::output:
        for (auto& part : static_cast<OutputStatement&>(node).parts) expr(part.expr.get(), frame);
        return;
      case StatementKind::if_: {
        auto& branch = static_cast<IfStatement&>(node);
        const Frame soft = frame.softened();
        for (auto& [condition, inner] : branch.branches) {
          expr(condition.get(), soft);
          body(inner, soft);
        }
        return body(branch.otherwise, soft);
      }
      case StatementKind::for_:
        return for_loop(static_cast<ForStatement&>(node), frame);
      case StatementKind::set: {
        auto& set = static_cast<SetStatement&>(node);
        target(set.target, *frame.symbols);
        expr(set.value.get(), frame);
        set.exported = frame.top_level;
        return;
      }
      case StatementKind::set_block: {
        auto& set = static_cast<SetBlockStatement&>(node);
        Symbols& symbols = new_symbols(frame.symbols, *function_);
        SymbolVisitor(symbols).body(set.body);
        body(set.body, {&symbols, false, false});
        target(set.target, *frame.symbols);
        expr(set.filter.get(), {&symbols, false, false});
        set.frame = frame_code(symbols);
        set.exported = frame.top_level;
        return;
      }
      case StatementKind::macro: {
        auto& statement = static_cast<MacroStatement&>(node);
        macro(statement.macro, frame, node.line);
        statement.ref = place(statement.macro.name, *frame.symbols);
        statement.exported = frame.top_level;
        return;
      }
      case StatementKind::call_block: {
        auto& call = static_cast<CallBlockStatement&>(node);
        macro(call.caller, frame, node.line);
        return expr(call.call.get(), frame);
      }
      case StatementKind::filter_block: {
        auto& filter = static_cast<FilterBlockStatement&>(node);
        Symbols& symbols = new_symbols(frame.symbols, *function_);
        SymbolVisitor visitor(symbols);
        visitor.body(filter.body);
        visitor.expr(filter.filter.get());
        body(filter.body, {&symbols, false, false});
        expr(filter.filter.get(), {&symbols, false, false});
        filter.frame = frame_code(symbols);
        return;
      }
      case StatementKind::with: {
        auto& with = static_cast<WithStatement&>(node);
        Symbols& symbols = new_symbols(frame.symbols, *function_);
        SymbolVisitor visitor(symbols);
        for (auto& [name, value] : with.assignments) visitor.target(name, true);
        visitor.body(with.body);
        for (auto& [name, value] : with.assignments) {
          expr(value.get(), frame);
          target(name, symbols);
        }
        body(with.body, {&symbols, false, false});
        with.frame = frame_code(symbols);
        return;
      }
      case StatementKind::break_:
      case StatementKind::continue_:
        if (function_->loops == 0) fail_at(node.line, "'break' or 'continue' outside of a loop");
        return;
      case StatementKind::block: {
        auto& block = static_cast<BlockStatement&>(node);
        FunctionScope& function = new_function(nullptr);
        Symbols& symbols = new_symbols(nullptr, function);
        SymbolVisitor(symbols).body(block.body);
        FunctionScope* const outer = std::exchange(function_, &function);
        body(block.body, {&symbols, false, false});
        block.frame = frame_code(symbols);
        block.num_slots = static_cast<int>(function.slots.size());
        function_ = outer;
        return;
      }
      case StatementKind::unsupported:
        return;
    }
  }

  const KnownNames known_;
  std::deque<FunctionScope> functions_;
  std::deque<Symbols> symbols_;
  FunctionScope* function_ = nullptr;
};

}  // namespace

void resolve_names(TemplateCode& code, const KnownNames& known) { Resolver(known).run(code); }

}  // namespace pagoda::jinja
