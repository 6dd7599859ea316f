#pragma once
// Parser: the state of one parse and its rules, by recursive descent; statements and tokens are in parser.cc,
// expressions in parse_expression.cc. Included only by these two files: others call parse() (parser.h).
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace pagoda::jinja {

// Maximum height of an expression: near CPython's own limit.
constexpr int kMaxHeight = 250;

class Parser {
 public:
  Parser(std::vector<Token> tokens, int max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  TemplateCode run();

 private:
  // Counts one level of nesting during its lifetime.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.max_depth_) parser_.fail_here("the template is nested too deeply");
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_op(std::string_view op) { return current().is_op(op) && (next(), true); }
  bool skip_name(std::string_view name) { return current().is_name(name) && (next(), true); }

  [[noreturn]] void fail_at(int line, std::string message) const;
  [[noreturn]] void fail_here(std::string message) const { fail_at(current().line, std::move(message)); }
  [[noreturn]] void expected(std::string_view what) const;
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect_kind(TokenKind kind, std::string_view what);

  // Called when a node has all its children.
  template <class T>
  ExprPtr finish(std::unique_ptr<T> node, std::initializer_list<const Expr*> children) {
    for (const Expr* child : children) {
      if (child != nullptr) node->height = std::max(node->height, child->height + 1);
    }
    if (node->height > kMaxHeight) fail_at(node->line, "an expression is nested too deeply");
    return node;
  }

  // --- statements ---

  // Parses up to a tag in `ends`, which stays the current token; to the end of the template if `ends` is
  // empty.
  Body parse_body(std::initializer_list<std::string_view> ends);
  Body parse_block_body(std::initializer_list<std::string_view> ends);
  Body parse_block_body_and_end(std::string_view end);
  std::unique_ptr<Statement> parse_statement();
  std::unique_ptr<Statement> parse_for(int line);
  std::unique_ptr<Statement> parse_if(int line);
  std::unique_ptr<Statement> parse_set(int line);
  void parse_parameters(MacroCode& macro);
  std::unique_ptr<Statement> parse_macro(int line);
  std::unique_ptr<Statement> parse_call_block(int line);
  std::unique_ptr<Statement> parse_filter_block(int line);
  std::unique_ptr<Statement> parse_with(int line);
  std::unique_ptr<Statement> parse_print(int line);
  std::unique_ptr<Statement> parse_block(int line);

  // --- targets ---

  std::string parse_target_name();
  static bool is_literal_name(std::string_view name);
  Target parse_target(bool with_namespace, std::string_view end_name);
  Target parse_one_target(bool with_namespace);

  // --- expressions ---

  struct TupleOptions {
    bool with_conditional = true;
    std::string_view end_name = {};
    bool in_parentheses = false;
  };

  bool at_tuple_end(std::string_view end_name) const;
  ExprPtr parse_tuple() { return parse_tuple(TupleOptions{}); }
  ExprPtr parse_tuple(const TupleOptions& options);
  ExprPtr make_sequence(ExprKind kind, int line, std::vector<ExprPtr> items);
  ExprPtr parse_expression();
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr make_logical(int line, bool is_and, ExprPtr left, ExprPtr right);
  ExprPtr parse_not();
  ExprPtr make_unary(int line, UnaryOp op, ExprPtr operand);
  ExprPtr parse_compare();
  ExprPtr make_binary(int line, BinaryOp op, ExprPtr left, ExprPtr right);
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  static ExprPtr constant(int line, Value value);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filter_expression(ExprPtr node);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  CallArguments parse_arguments();
  static int height(const CallArguments& arguments);
  ExprPtr parse_call(ExprPtr callee);
  std::string parse_dotted_name();

  // A chain of filters applied to `value`; `begins_inline`: the first has no '|' before it.
  ExprPtr parse_filters(ExprPtr value, bool begins_inline);
  ExprPtr parse_test(ExprPtr value);

  const std::vector<Token> tokens_;
  const int max_depth_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::set<std::string> blocks_;
};

}  // namespace pagoda::jinja
