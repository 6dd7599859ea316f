#include "text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <set>

namespace pagoda::jinja {
namespace {

constexpr int kMaxHeight = 250;

class Parser {
 public:
  Parser(std::vector<Token> tokens, int max_depth) : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  TemplateCode run() {
    TemplateCode code;
    code.body = parse_body({});
    return code;
  }

 private:
  // Counts a level of nesting while it lives.
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

  [[noreturn]] void fail_at(int line, std::string message) const {
    throw TemplateError(ErrorKind::syntax, std::move(message), line);
  }
  [[noreturn]] void fail_here(std::string message) const { fail_at(current().line, std::move(message)); }
  [[noreturn]] void expected(std::string_view what) const {
    fail_here("expected " + std::string(what) + ", got " + describe(current()));
  }
  void expect_op(std::string_view op) {
    if (!skip_op(op)) expected("'" + std::string(op) + "'");
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) expected("'" + std::string(name) + "'");
  }
  std::string expect_any_name() {
    if (current().kind != TokenKind::name) expected("a name");
    return next().text;
  }
  void expect_kind(TokenKind kind, std::string_view what) {
    if (current().kind != kind) expected(what);
    next();
  }

  // Called once a node has its children.
  template <class T>
  ExprPtr finish(std::unique_ptr<T> node, std::initializer_list<const Expr*> children) {
    for (const Expr* child : children) {
      if (child != nullptr) node->height = std::max(node->height, child->height + 1);
    }
    if (node->height > kMaxHeight) fail_at(node->line, "an expression is nested too deeply");
    return node;
  }

  // --- statements ---

  // Up to a tag in `ends`, which stays the current token; to the end of the template if `ends` is empty.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Level level(*this);
    Body body;
    std::unique_ptr<OutputStatement> output;
    const auto flush = [&] {
      if (output) body.push_back(std::move(output));
    };
    const auto add_output = [&](int line) -> std::vector<OutputStatement::Part>& {
      if (!output) output = std::make_unique<OutputStatement>(line);
      return output->parts;
    };
    while (current().kind != TokenKind::end) {
      const int line = current().line;
      if (current().kind == TokenKind::data) {
        add_output(line).push_back({next().text, nullptr});
      } else if (current().kind == TokenKind::variable_begin) {
        next();
        ExprPtr expr = parse_tuple();
        expect_kind(TokenKind::variable_end, "end of print statement");
        add_output(line).push_back({"", std::move(expr)});
      } else {
        flush();
        expect_kind(TokenKind::block_begin, "begin of statement block");
        if (std::any_of(ends.begin(), ends.end(),
                        [this](std::string_view end) { return current().is_name(end); })) {
          return body;
        }
        body.push_back(parse_statement());
        expect_kind(TokenKind::block_end, "end of statement block");
      }
    }
    if (ends.size() != 0) {
      fail_here("Unexpected end of template. Jinja was looking for the tag '" + std::string(*ends.begin()) +
                "'.");
    }
    flush();
    return body;
  }

  Body parse_block_body(std::initializer_list<std::string_view> ends) {
    skip_op(":");
    expect_kind(TokenKind::block_end, "end of statement block");
    return parse_body(ends);
  }
  Body parse_block_body_and_end(std::string_view end) {
    Body body = parse_block_body({end});
    next();
    return body;
  }

  std::unique_ptr<Statement> parse_statement() {
    const Token& token = current();
    const int line = token.line;
    if (token.kind != TokenKind::name) fail_here("tag name expected");
    const std::string& tag = token.text;
    if (tag == "for") return parse_for(line);
    if (tag == "if") return parse_if(line);
    if (tag == "set") return parse_set(line);
    if (tag == "macro") return parse_macro(line);
    if (tag == "call") return parse_call_block(line);
    if (tag == "filter") return parse_filter_block(line);
    if (tag == "with") return parse_with(line);
    if (tag == "print") return parse_print(line);
    if (tag == "block") return parse_block(line);
    if (tag == "generation") {
      next();
      auto node = std::make_unique<CallBlockStatement>(line);
      node->caller.body = parse_block_body_and_end("endgeneration");
      return node;
    }
    if (tag == "break" || tag == "continue") {
      next();
      return std::make_unique<JumpStatement>(
          tag == "break" ? StatementKind::break_ : StatementKind::continue_, line);
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
      auto node = std::make_unique<UnsupportedStatement>(line, tag);
      while (current().kind != TokenKind::block_end && current().kind != TokenKind::end) next();
      return node;
    }
    if (tag == "autoescape") fail_here("the tag 'autoescape' is not supported");
    fail_here("Encountered unknown tag '" + tag + "'.");
  }

  std::unique_ptr<Statement> parse_for(int line) {
    next();
    auto node = std::make_unique<ForStatement>(line);
    node->target = parse_target(false, "in");
    expect_name("in");
    node->iterable = parse_tuple({.with_conditional = false, .end_name = "recursive"});
    if (skip_name("if")) node->condition = parse_expression();
    node->recursive = skip_name("recursive");
    node->body = parse_block_body({"endfor", "else"});
    if (next().text != "endfor") node->otherwise = parse_block_body_and_end("endfor");
    return node;
  }

  std::unique_ptr<Statement> parse_if(int line) {
    next();
    auto node = std::make_unique<IfStatement>(line);
    for (;;) {
      ExprPtr condition = parse_tuple({.with_conditional = false});
      Body body = parse_block_body({"elif", "else", "endif"});
      node->branches.emplace_back(std::move(condition), std::move(body));
      const std::string tag = next().text;
      if (tag == "elif") continue;
      if (tag == "else") node->otherwise = parse_block_body_and_end("endif");
      return node;
    }
  }

  std::unique_ptr<Statement> parse_set(int line) {
    next();
    Target target = parse_target(true, "");
    if (skip_op("=")) {
      auto node = std::make_unique<SetStatement>(line);
      node->target = std::move(target);
      node->value = parse_tuple();
      return node;
    }
    auto node = std::make_unique<SetBlockStatement>(line);
    node->target = std::move(target);
    node->filter = parse_filters(nullptr, false);
    node->body = parse_block_body_and_end("endset");
    return node;
  }

  void parse_parameters(MacroCode& macro) {
    expect_op("(");
    while (!current().is_op(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      MacroCode::Parameter parameter;
      parameter.name = parse_target_name();
      for (const auto& other : macro.parameters) {
        if (other.name == parameter.name) fail_here("duplicate argument '" + parameter.name + "'");
      }
      if (skip_op("=")) {
        parameter.fallback = parse_expression();
      } else if (!macro.parameters.empty() && macro.parameters.back().fallback) {
        fail_here("non-default argument follows default argument");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    expect_op(")");
  }

  std::unique_ptr<Statement> parse_macro(int line) {
    next();
    auto node = std::make_unique<MacroStatement>(line);
    node->macro.name = parse_target_name();
    parse_parameters(node->macro);
    node->macro.body = parse_block_body_and_end("endmacro");
    return node;
  }

  std::unique_ptr<Statement> parse_call_block(int line) {
    next();
    auto node = std::make_unique<CallBlockStatement>(line);
    if (current().is_op("(")) parse_parameters(node->caller);
    node->call = parse_expression();
    if (node->call->kind != ExprKind::call) fail_at(line, "expected call");
    node->caller.body = parse_block_body_and_end("endcall");
    return node;
  }

  std::unique_ptr<Statement> parse_filter_block(int line) {
    next();
    auto node = std::make_unique<FilterBlockStatement>(line);
    node->filter = parse_filters(nullptr, true);
    node->body = parse_block_body_and_end("endfilter");
    return node;
  }

  std::unique_ptr<Statement> parse_with(int line) {
    next();
    auto node = std::make_unique<WithStatement>(line);
    while (current().kind != TokenKind::block_end) {
      if (!node->assignments.empty()) expect_op(",");
      Target target = parse_target(false, "");
      expect_op("=");
      node->assignments.emplace_back(std::move(target), parse_expression());
    }
    node->body = parse_block_body_and_end("endwith");
    return node;
  }

  std::unique_ptr<Statement> parse_print(int line) {
    next();
    auto node = std::make_unique<OutputStatement>(line);
    while (current().kind != TokenKind::block_end) {
      if (!node->parts.empty()) expect_op(",");
      node->parts.push_back({"", parse_expression()});
    }
    return node;
  }

  std::unique_ptr<Statement> parse_block(int line) {
    next();
    auto node = std::make_unique<BlockStatement>(line);
    node->name = expect_any_name();
    if (!blocks_.insert(node->name).second) fail_at(line, "block '" + node->name + "' defined twice");
    if (current().is_name("scoped") || current().is_name("required")) {
      fail_here("'" + current().text + "' blocks are not supported");
    }
    node->body = parse_block_body_and_end("endblock");
    skip_name(node->name);
    return node;
  }

  // --- targets ---

  std::string parse_target_name() {
    const int line = current().line;
    std::string name = expect_any_name();
    if (is_literal_name(name)) fail_at(line, "can't assign to 'name'");
    return name;
  }
  static bool is_literal_name(std::string_view name) {
    return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
           name == "None";
  }

  Target parse_target(bool with_namespace, std::string_view end_name) {
    const int line = current().line;
    std::vector<Target> items;
    bool is_tuple = false;
    for (;;) {
      if (!items.empty()) expect_op(",");
      if (at_tuple_end(end_name)) break;
      items.push_back(parse_one_target(with_namespace));
      if (!current().is_op(",")) break;
      is_tuple = true;
    }
    if (items.empty()) fail_here("Expected an expression, got " + describe(current()));
    if (!is_tuple) return std::move(items.front());
    Target target;
    target.kind = Target::Kind::tuple;
    target.line = line;
    target.items = std::move(items);
    return target;
  }

  Target parse_one_target(bool with_namespace) {
    Target target;
    target.line = current().line;
    if (current().is_op("(") || current().is_op("[")) {
      if (current().is_op("[")) fail_here("can't assign to 'list'");
      next();
      const Level level(*this);
      if (skip_op(")")) {
        target.kind = Target::Kind::tuple;
        return target;
      }
      target = parse_target(false, "");
      expect_op(")");
      return target;
    }
    target.name = parse_target_name();
    if (with_namespace && skip_op(".")) {
      target.kind = Target::Kind::attribute;
      target.attribute = expect_any_name();
    }
    return target;
  }

  // --- expressions ---

  struct TupleOptions {
    bool with_conditional = true;
    std::string_view end_name = {};
    bool in_parentheses = false;
  };

  bool at_tuple_end(std::string_view end_name) const {
    return current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
           current().is_op(")") || (!end_name.empty() && current().is_name(end_name));
  }

  ExprPtr parse_tuple() { return parse_tuple(TupleOptions{}); }
  ExprPtr parse_tuple(const TupleOptions& options) {
    const int line = current().line;
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    for (;;) {
      if (!items.empty()) expect_op(",");
      if (at_tuple_end(options.end_name)) break;
      items.push_back(options.with_conditional ? parse_expression() : parse_or());
      if (!current().is_op(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items.front());
    if (!is_tuple && !options.in_parentheses) fail_here("Expected an expression, got " + describe(current()));
    return make_sequence(ExprKind::tuple, line, std::move(items));
  }

  ExprPtr make_sequence(ExprKind kind, int line, std::vector<ExprPtr> items) {
    auto node = std::make_unique<SequenceExpr>(kind, line);
    node->items = std::move(items);
    for (const ExprPtr& item : node->items) node->height = std::max(node->height, item->height + 1);
    return finish(std::move(node), {});
  }

  ExprPtr parse_expression() {
    const Level level(*this);
    return parse_conditional();
  }

  ExprPtr parse_conditional() {
    ExprPtr value = parse_or();
    while (current().is_name("if")) {
      auto node = std::make_unique<ConditionalExpr>(next().line);
      node->then = std::move(value);
      node->condition = parse_or();
      if (skip_name("else")) {
        const Level level(*this);
        node->otherwise = parse_conditional();
      }
      const Expr* const children[] = {node->then.get(), node->condition.get(), node->otherwise.get()};
      value = finish(std::move(node), {children[0], children[1], children[2]});
    }
    return value;
  }

  ExprPtr parse_or() {
    ExprPtr left = parse_and();
    while (current().is_name("or")) {
      const int line = next().line;
      left = make_logical(line, false, std::move(left), parse_and());
    }
    return left;
  }
  ExprPtr parse_and() {
    ExprPtr left = parse_not();
    while (current().is_name("and")) {
      const int line = next().line;
      left = make_logical(line, true, std::move(left), parse_not());
    }
    return left;
  }
  ExprPtr make_logical(int line, bool is_and, ExprPtr left, ExprPtr right) {
    auto node = std::make_unique<LogicalExpr>(line, is_and);
    node->left = std::move(left);
    node->right = std::move(right);
    const Expr* const children[] = {node->left.get(), node->right.get()};
    return finish(std::move(node), {children[0], children[1]});
  }

  ExprPtr parse_not() {
    if (!current().is_name("not")) return parse_compare();
    const Level level(*this);
    const int line = next().line;
    return make_unary(line, UnaryOp::logical_not, parse_not());
  }
  ExprPtr make_unary(int line, UnaryOp op, ExprPtr operand) {
    auto node = std::make_unique<UnaryExpr>(line, op);
    node->operand = std::move(operand);
    const Expr* const child = node->operand.get();
    return finish(std::move(node), {child});
  }

  ExprPtr parse_compare() {
    const int line = current().line;
    ExprPtr first = parse_sum();
    std::vector<std::pair<CompareOp, ExprPtr>> rest;
    for (;;) {
      static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
          {"==", CompareOp::equal},      {"!=", CompareOp::not_equal}, {"<", CompareOp::less},
          {"<=", CompareOp::less_equal}, {">", CompareOp::greater},    {">=", CompareOp::greater_equal}};
      const auto* op = std::find_if(std::begin(kOps), std::end(kOps),
                                    [this](const auto& entry) { return current().is_op(entry.first); });
      if (op != std::end(kOps)) {
        next();
        rest.emplace_back(op->second, parse_sum());
      } else if (skip_name("in")) {
        rest.emplace_back(CompareOp::in, parse_sum());
      } else if (current().is_name("not") && look().is_name("in")) {
        next();
        next();
        rest.emplace_back(CompareOp::not_in, parse_sum());
      } else {
        break;
      }
    }
    if (rest.empty()) return first;
    auto node = std::make_unique<CompareExpr>(line);
    node->height = first->height + 1;
    for (const auto& [op, operand] : rest) node->height = std::max(node->height, operand->height + 1);
    node->first = std::move(first);
    node->rest = std::move(rest);
    return finish(std::move(node), {});
  }

  ExprPtr make_binary(int line, BinaryOp op, ExprPtr left, ExprPtr right) {
    auto node = std::make_unique<BinaryExpr>(line, op);
    node->left = std::move(left);
    node->right = std::move(right);
    const Expr* const children[] = {node->left.get(), node->right.get()};
    return finish(std::move(node), {children[0], children[1]});
  }

  ExprPtr parse_sum() {
    ExprPtr left = parse_concat();
    while (current().is_op("+") || current().is_op("-")) {
      const Token& token = next();
      const BinaryOp op = token.text == "+" ? BinaryOp::add : BinaryOp::subtract;
      left = make_binary(token.line, op, std::move(left), parse_concat());
    }
    return left;
  }

  ExprPtr parse_concat() {
    const int line = current().line;
    std::vector<ExprPtr> items;
    items.push_back(parse_product());
    while (skip_op("~")) items.push_back(parse_product());
    if (items.size() == 1) return std::move(items.front());
    return make_sequence(ExprKind::concat, line, std::move(items));
  }

  ExprPtr parse_product() {
    static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {{"*", BinaryOp::multiply},
                                                                     {"/", BinaryOp::divide},
                                                                     {"//", BinaryOp::floor_divide},
                                                                     {"%", BinaryOp::modulo}};
    ExprPtr left = parse_power();
    for (;;) {
      const auto* op = std::find_if(std::begin(kOps), std::end(kOps),
                                    [this](const auto& entry) { return current().is_op(entry.first); });
      if (op == std::end(kOps)) return left;
      const int line = next().line;
      left = make_binary(line, op->second, std::move(left), parse_power());
    }
  }

  ExprPtr parse_power() {
    ExprPtr left = parse_unary(true);
    while (current().is_op("**")) {
      const int line = next().line;
      left = make_binary(line, BinaryOp::power, std::move(left), parse_unary(true));
    }
    return left;
  }

  ExprPtr parse_unary(bool with_filters) {
    ExprPtr node;
    if (current().is_op("-") || current().is_op("+")) {
      const Level level(*this);
      const Token& token = next();
      const UnaryOp op = token.text == "-" ? UnaryOp::negate : UnaryOp::plus;
      node = make_unary(token.line, op, parse_unary(false));
    } else {
      node = parse_primary();
    }
    node = parse_postfix(std::move(node));
    return with_filters ? parse_filter_expression(std::move(node)) : std::move(node);
  }

  ExprPtr parse_primary() {
    const Token& token = current();
    switch (token.kind) {
      case TokenKind::name:
        next();
        if (token.text == "true" || token.text == "True") return constant(token.line, Value::boolean(true));
        if (token.text == "false" || token.text == "False")
          return constant(token.line, Value::boolean(false));
        if (token.text == "none" || token.text == "None") return constant(token.line, Value());
        return std::make_unique<NameExpr>(token.line, token.text);
      case TokenKind::string: {
        std::string text;
        while (current().kind == TokenKind::string) text += next().text;
        return constant(token.line, Value::string(std::move(text)));
      }
      case TokenKind::integer:
        next();
        return constant(token.line, Value::integer(token.integer));
      case TokenKind::real:
        next();
        return constant(token.line, Value::real(token.real));
      default:
        break;
    }
    if (token.is_op("(")) {
      next();
      const Level level(*this);
      ExprPtr node = parse_tuple({.in_parentheses = true});
      expect_op(")");
      return node;
    }
    if (token.is_op("[")) return parse_list();
    if (token.is_op("{")) return parse_dict();
    fail_here("unexpected " + describe(token));
  }

  static ExprPtr constant(int line, Value value) {
    return std::make_unique<ConstantExpr>(line, std::move(value));
  }

  ExprPtr parse_list() {
    const int line = next().line;
    std::vector<ExprPtr> items;
    while (!current().is_op("]")) {
      if (!items.empty()) expect_op(",");
      if (current().is_op("]")) break;
      items.push_back(parse_expression());
    }
    expect_op("]");
    return make_sequence(ExprKind::list, line, std::move(items));
  }

  ExprPtr parse_dict() {
    auto node = std::make_unique<DictExpr>(next().line);
    while (!current().is_op("}")) {
      if (!node->entries.empty()) expect_op(",");
      if (current().is_op("}")) break;
      ExprPtr key = parse_expression();
      expect_op(":");
      ExprPtr value = parse_expression();
      node->height = std::max({node->height, key->height + 1, value->height + 1});
      node->entries.emplace_back(std::move(key), std::move(value));
    }
    expect_op("}");
    return finish(std::move(node), {});
  }

  ExprPtr parse_postfix(ExprPtr node) {
    for (;;) {
      if (current().is_op(".")) {
        node = parse_attribute(std::move(node));
      } else if (current().is_op("[")) {
        node = parse_subscript(std::move(node));
      } else if (current().is_op("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_filter_expression(ExprPtr node) {
    for (;;) {
      if (current().is_op("|")) {
        node = parse_filters(std::move(node), false);
      } else if (current().is_name("is")) {
        node = parse_test(std::move(node));
      } else if (current().is_op("(")) {
        node = parse_call(std::move(node));
      } else {
        return node;
      }
    }
  }

  ExprPtr parse_attribute(ExprPtr object) {
    const int line = next().line;
    const Expr* const child = object.get();
    if (current().kind == TokenKind::name) {
      auto node = std::make_unique<AttributeExpr>(line, next().text);
      node->object = std::move(object);
      return finish(std::move(node), {child});
    }
    if (current().kind != TokenKind::integer) fail_here("expected name or number");
    auto node = std::make_unique<ItemExpr>(line);
    node->object = std::move(object);
    node->key = constant(line, Value::integer(next().integer));
    return finish(std::move(node), {child});
  }

  ExprPtr parse_subscript(ExprPtr object) {
    const int line = next().line;
    std::vector<ExprPtr> keys;
    std::unique_ptr<SliceExpr> slice;
    while (!current().is_op("]")) {
      if (!keys.empty() || slice) expect_op(",");
      if (slice) fail_here("a slice inside a tuple is not supported");
      ExprPtr start;
      if (!current().is_op(":")) {
        start = parse_expression();
        if (!current().is_op(":")) {
          keys.push_back(std::move(start));
          continue;
        }
      }
      if (!keys.empty()) fail_here("a slice inside a tuple is not supported");
      next();
      slice = std::make_unique<SliceExpr>(line);
      slice->start = std::move(start);
      const auto at_end = [this] { return current().is_op("]") || current().is_op(","); };
      if (!current().is_op(":") && !at_end()) slice->stop = parse_expression();
      if (skip_op(":") && !at_end()) slice->step = parse_expression();
    }
    expect_op("]");
    if (slice) {
      slice->object = std::move(object);
      const Expr* const children[] = {slice->object.get(), slice->start.get(), slice->stop.get(),
                                      slice->step.get()};
      return finish(std::move(slice), {children[0], children[1], children[2], children[3]});
    }
    auto node = std::make_unique<ItemExpr>(line);
    node->object = std::move(object);
    node->key =
        keys.size() == 1 ? std::move(keys.front()) : make_sequence(ExprKind::tuple, line, std::move(keys));
    const Expr* const children[] = {node->object.get(), node->key.get()};
    return finish(std::move(node), {children[0], children[1]});
  }

  CallArguments parse_arguments() {
    const Level level(*this);
    const int line = current().line;
    expect_op("(");
    CallArguments arguments;
    const auto ensure = [&](bool condition) {
      if (!condition) fail_at(line, "invalid syntax for function call expression");
    };
    bool needs_comma = false;
    while (!current().is_op(")")) {
      if (needs_comma) {
        expect_op(",");
        if (current().is_op(")")) break;
      }
      if (skip_op("*")) {
        ensure(!arguments.more_positional && !arguments.more_keyword);
        arguments.more_positional = parse_expression();
      } else if (skip_op("**")) {
        ensure(!arguments.more_keyword);
        arguments.more_keyword = parse_expression();
      } else if (current().kind == TokenKind::name && look().is_op("=")) {
        ensure(!arguments.more_keyword);
        std::string key = next().text;
        next();
        for (const auto& [other, value] : arguments.keyword) {
          if (other == key) fail_here("keyword argument repeated: " + key);
        }
        arguments.keyword.emplace_back(std::move(key), parse_expression());
      } else {
        ensure(!arguments.more_positional && !arguments.more_keyword && arguments.keyword.empty());
        arguments.positional.push_back(parse_expression());
      }
      needs_comma = true;
    }
    expect_op(")");
    return arguments;
  }

  static int height(const CallArguments& arguments) {
    int result = 0;
    for (const ExprPtr& argument : arguments.positional) result = std::max(result, argument->height);
    for (const auto& [name, argument] : arguments.keyword) result = std::max(result, argument->height);
    if (arguments.more_positional) result = std::max(result, arguments.more_positional->height);
    if (arguments.more_keyword) result = std::max(result, arguments.more_keyword->height);
    return result;
  }

  ExprPtr parse_call(ExprPtr callee) {
    auto node = std::make_unique<CallExpr>(current().line);
    node->callee = std::move(callee);
    node->arguments = parse_arguments();
    node->height = height(node->arguments) + 1;
    const Expr* const child = node->callee.get();
    return finish(std::move(node), {child});
  }

  std::string parse_dotted_name() {
    std::string name = expect_any_name();
    while (skip_op(".")) name += "." + expect_any_name();
    return name;
  }

  // Filters applied to `value` one after the other; `begins_inline`: the first has no '|' before it.
  ExprPtr parse_filters(ExprPtr value, bool begins_inline) {
    while (begins_inline || current().is_op("|")) {
      if (!begins_inline) next();
      begins_inline = false;
      auto node = std::make_unique<FilterExpr>(ExprKind::filter, current().line);
      node->name = parse_dotted_name();
      if (current().is_op("(")) node->arguments = parse_arguments();
      node->height = height(node->arguments) + 1;
      const Expr* const child = value.get();
      node->value = std::move(value);
      value = finish(std::move(node), {child});
    }
    return value;
  }

  ExprPtr parse_test(ExprPtr value) {
    const int line = next().line;
    const bool negated = skip_name("not");
    auto node = std::make_unique<FilterExpr>(ExprKind::test, line);
    node->name = parse_dotted_name();
    const Token& token = current();
    const bool begins_operand = token.kind == TokenKind::name || token.kind == TokenKind::string ||
                                token.kind == TokenKind::integer || token.kind == TokenKind::real ||
                                token.is_op("[") || token.is_op("{");
    if (token.is_op("(")) {
      node->arguments = parse_arguments();
    } else if (begins_operand && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
      if (token.is_name("is")) fail_here("You cannot chain multiple tests with is");
      const Level level(*this);
      node->arguments.positional.push_back(parse_postfix(parse_primary()));
    }
    node->height = height(node->arguments) + 1;
    const Expr* const child = value.get();
    node->value = std::move(value);
    ExprPtr test = finish(std::move(node), {child});
    return negated ? make_unary(line, UnaryOp::logical_not, std::move(test)) : std::move(test);
  }

  const std::vector<Token> tokens_;
  const int max_depth_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::set<std::string> blocks_;
};

}  // namespace

TemplateCode parse(std::vector<Token> tokens, int max_depth) {
  return Parser(std::move(tokens), max_depth).run();
}

}  // namespace pagoda::jinja
