#pragma once
// The syntax tree of a template. Built by the parser; scope.cc fills in the location of each name (VarRef,
// FrameCode); Render walks it. Immutable afterwards.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace pagoda::jinja {

// A variable: `hops` functions outwards (macro, recursive loop, loop filter, template), then a slot.
struct VarRef {
  int hops = 0;
  int slot = -1;
};

// Assignments at the start and end of a scope. jinja2 compiles each scope to such assignments of Python
// locals, and templates can observe it: an inner scope copies an outer variable on entry, never writes it
// back, and never sees assignments that come later in the outer scope.
struct FrameCode {
  enum class Action { resolve, alias, forget };
  struct Load {
    int slot = -1;
    Action action = Action::forget;
    std::string name;  // resolve: the context's variable
    VarRef from;       // alias: the outer variable
  };
  std::vector<Load> loads;
  std::vector<int> clear;  // slots to forget on leaving the scope
};

enum class ExprKind : std::uint8_t {
  constant,
  name,
  tuple,
  list,
  dict,
  unary,
  binary,
  logical,
  concat,
  compare,
  conditional,
  attribute,
  item,
  slice,
  call,
  filter,
  test,
};

struct Expr {
  Expr(ExprKind kind_in, int line_in) : kind(kind_in), line(line_in) {}
  virtual ~Expr() = default;
  const ExprKind kind;
  const int line;
  int height = 1;  // height of this subtree, itself included
};
using ExprPtr = std::unique_ptr<Expr>;

struct ConstantExpr final : Expr {
  ConstantExpr(int line_in, Value value_in) : Expr(ExprKind::constant, line_in), value(std::move(value_in)) {}
  Value value;
};

struct NameExpr final : Expr {
  NameExpr(int line_in, std::string name_in) : Expr(ExprKind::name, line_in), name(std::move(name_in)) {}
  std::string name;
  VarRef ref;
};

struct SequenceExpr final : Expr {  // tuple, list, and the operands of `~`
  using Expr::Expr;
  std::vector<ExprPtr> items;
};

struct DictExpr final : Expr {
  explicit DictExpr(int line_in) : Expr(ExprKind::dict, line_in) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};

enum class UnaryOp : std::uint8_t { negate, plus, logical_not };
struct UnaryExpr final : Expr {
  UnaryExpr(int line_in, UnaryOp op_in) : Expr(ExprKind::unary, line_in), op(op_in) {}
  UnaryOp op;
  ExprPtr operand;
};

enum class BinaryOp : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
struct BinaryExpr final : Expr {
  BinaryExpr(int line_in, BinaryOp op_in) : Expr(ExprKind::binary, line_in), op(op_in) {}
  BinaryOp op;
  ExprPtr left, right;
};

struct LogicalExpr final : Expr {
  LogicalExpr(int line_in, bool is_and_in) : Expr(ExprKind::logical, line_in), is_and(is_and_in) {}
  bool is_and;
  ExprPtr left, right;
};

enum class CompareOp : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};
struct CompareExpr final : Expr {
  explicit CompareExpr(int line_in) : Expr(ExprKind::compare, line_in) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct ConditionalExpr final : Expr {
  explicit ConditionalExpr(int line_in) : Expr(ExprKind::conditional, line_in) {}
  ExprPtr condition, then, otherwise;  // otherwise may be null
};

struct AttributeExpr final : Expr {
  AttributeExpr(int line_in, std::string name_in)
      : Expr(ExprKind::attribute, line_in), name(Value::string(std::move(name_in))) {}
  ExprPtr object;
  Value name;
};

struct ItemExpr final : Expr {
  explicit ItemExpr(int line_in) : Expr(ExprKind::item, line_in) {}
  ExprPtr object, key;
};

struct SliceExpr final : Expr {
  explicit SliceExpr(int line_in) : Expr(ExprKind::slice, line_in) {}
  ExprPtr object, start, stop, step;  // all but object may be null
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr more_positional, more_keyword;  // *args, **kwargs; may be null
};

struct CallExpr final : Expr {
  explicit CallExpr(int line_in) : Expr(ExprKind::call, line_in) {}
  ExprPtr callee;
  CallArguments arguments;
};

// A filter or a test. In a filter block, the value is null: the block's output is used instead.
struct FilterExpr final : Expr {
  FilterExpr(ExprKind kind_in, int line_in) : Expr(kind_in, line_in) {}
  ExprPtr value;
  std::string name;
  CallArguments arguments;
};

struct Target {
  enum class Kind { name, tuple, attribute };
  Kind kind = Kind::name;
  int line = 0;
  std::string name;       // the variable (the namespace for attribute)
  std::string attribute;  // attribute: the namespace's attribute
  VarRef ref;
  std::vector<Target> items;
};

enum class StatementKind : std::uint8_t {
  output,
  if_,
  for_,
  set,
  set_block,
  macro,
  call_block,
  filter_block,
  with,
  break_,
  continue_,
  block,
  unsupported,
};

struct Statement {
  Statement(StatementKind kind_in, int line_in) : kind(kind_in), line(line_in) {}
  virtual ~Statement() = default;
  const StatementKind kind;
  const int line;
};
using Body = std::vector<std::unique_ptr<Statement>>;

struct OutputStatement final : Statement {
  explicit OutputStatement(int line_in) : Statement(StatementKind::output, line_in) {}
  struct Part {
    std::string data;
    ExprPtr expr;  // null: data
  };
  std::vector<Part> parts;
};

struct IfStatement final : Statement {
  explicit IfStatement(int line_in) : Statement(StatementKind::if_, line_in) {}
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};

struct ForStatement final : Statement {
  explicit ForStatement(int line_in) : Statement(StatementKind::for_, line_in) {}
  Target target;
  ExprPtr iterable;
  ExprPtr condition;  // may be null
  bool recursive = false;
  Body body, otherwise;

  bool extended = false;  // the body uses `loop`
  VarRef loop;
  FrameCode body_frame, otherwise_frame;
  int num_slots = 0;        // recursive: slots of the function that the loop becomes
  Target condition_target;  // the same target, in the filter's function
  FrameCode condition_frame;
  int condition_slots = 0;
};

struct SetStatement final : Statement {
  explicit SetStatement(int line_in) : Statement(StatementKind::set, line_in) {}
  Target target;
  ExprPtr value;
  bool exported = false;  // assigned at the top level, so that blocks see it
};

struct SetBlockStatement final : Statement {
  explicit SetBlockStatement(int line_in) : Statement(StatementKind::set_block, line_in) {}
  Target target;
  ExprPtr filter;  // may be null
  Body body;
  FrameCode frame;
  bool exported = false;
};

struct MacroCode {
  struct Parameter {
    std::string name;
    VarRef ref;
    ExprPtr fallback;  // may be null
  };
  std::string name;
  std::vector<Parameter> parameters;
  std::optional<VarRef> caller, varargs, kwargs;  // set if the body uses them without declaring them
  Body body;
  FrameCode frame;
  int num_slots = 0;
};

struct MacroStatement final : Statement {
  explicit MacroStatement(int line_in) : Statement(StatementKind::macro, line_in) {}
  MacroCode macro;
  VarRef ref;
  bool exported = false;
};

struct CallBlockStatement final : Statement {  // also {% generation %}: a call block without a call
  explicit CallBlockStatement(int line_in) : Statement(StatementKind::call_block, line_in) {}
  MacroCode caller;
  ExprPtr call;  // null: just the body
};

struct FilterBlockStatement final : Statement {
  explicit FilterBlockStatement(int line_in) : Statement(StatementKind::filter_block, line_in) {}
  ExprPtr filter;
  Body body;
  FrameCode frame;
};

struct WithStatement final : Statement {
  explicit WithStatement(int line_in) : Statement(StatementKind::with, line_in) {}
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Body body;
  FrameCode frame;
};

struct JumpStatement final : Statement {
  using Statement::Statement;
};

struct BlockStatement final : Statement {
  explicit BlockStatement(int line_in) : Statement(StatementKind::block, line_in) {}
  std::string name;
  Body body;
  FrameCode frame;
  int num_slots = 0;
};

struct UnsupportedStatement final : Statement {  // include, import, …: refused when reached
  UnsupportedStatement(int line_in, std::string tag_in)
      : Statement(StatementKind::unsupported, line_in), tag(std::move(tag_in)) {}
  std::string tag;
};

struct TemplateCode {
  Body body;
  FrameCode frame;
  int num_slots = 0;
};

}  // namespace pagoda::jinja
