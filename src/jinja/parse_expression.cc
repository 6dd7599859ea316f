// Parses expressions, from the loosest-binding operator to the tightest.
#include "jinja/parser_state.h"

namespace pagoda::jinja {

bool Parser::at_tuple_end(std::string_view end_name) const {
  return current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end ||
         current().is_op(")") || (!end_name.empty() && current().is_name(end_name));
}

ExprPtr Parser::parse_tuple(const TupleOptions& options) {
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

ExprPtr Parser::make_sequence(ExprKind kind, int line, std::vector<ExprPtr> items) {
  auto node = std::make_unique<SequenceExpr>(kind, line);
  node->items = std::move(items);
  for (const ExprPtr& item : node->items) node->height = std::max(node->height, item->height + 1);
  return finish(std::move(node), {});
}

ExprPtr Parser::parse_expression() {
  const Level level(*this);
  return parse_conditional();
}

ExprPtr Parser::parse_conditional() {
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

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (current().is_name("or")) {
    const int line = next().line;
    left = make_logical(line, false, std::move(left), parse_and());
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (current().is_name("and")) {
    const int line = next().line;
    left = make_logical(line, true, std::move(left), parse_not());
  }
  return left;
}

ExprPtr Parser::make_logical(int line, bool is_and, ExprPtr left, ExprPtr right) {
  auto node = std::make_unique<LogicalExpr>(line, is_and);
  node->left = std::move(left);
  node->right = std::move(right);
  const Expr* const children[] = {node->left.get(), node->right.get()};
  return finish(std::move(node), {children[0], children[1]});
}

ExprPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Level level(*this);
  const int line = next().line;
  return make_unary(line, UnaryOp::logical_not, parse_not());
}

ExprPtr Parser::make_unary(int line, UnaryOp op, ExprPtr operand) {
  auto node = std::make_unique<UnaryExpr>(line, op);
  node->operand = std::move(operand);
  const Expr* const child = node->operand.get();
  return finish(std::move(node), {child});
}

ExprPtr Parser::parse_compare() {
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

ExprPtr Parser::make_binary(int line, BinaryOp op, ExprPtr left, ExprPtr right) {
  auto node = std::make_unique<BinaryExpr>(line, op);
  node->left = std::move(left);
  node->right = std::move(right);
  const Expr* const children[] = {node->left.get(), node->right.get()};
  return finish(std::move(node), {children[0], children[1]});
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().is_op("+") || current().is_op("-")) {
    const Token& token = next();
    const BinaryOp op = token.text == "+" ? BinaryOp::add : BinaryOp::subtract;
    left = make_binary(token.line, op, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  const int line = current().line;
  std::vector<ExprPtr> items;
  items.push_back(parse_product());
  while (skip_op("~")) items.push_back(parse_product());
  if (items.size() == 1) return std::move(items.front());
  return make_sequence(ExprKind::concat, line, std::move(items));
}

ExprPtr Parser::parse_product() {
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

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (current().is_op("**")) {
    const int line = next().line;
    left = make_binary(line, BinaryOp::power, std::move(left), parse_unary(true));
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filters) {
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

ExprPtr Parser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::name:
      next();
      if (token.text == "true" || token.text == "True") return constant(token.line, Value::boolean(true));
      if (token.text == "false" || token.text == "False") return constant(token.line, Value::boolean(false));
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

ExprPtr Parser::constant(int line, Value value) {
  return std::make_unique<ConstantExpr>(line, std::move(value));
}

ExprPtr Parser::parse_list() {
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

ExprPtr Parser::parse_dict() {
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

ExprPtr Parser::parse_postfix(ExprPtr node) {
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

ExprPtr Parser::parse_filter_expression(ExprPtr node) {
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

ExprPtr Parser::parse_attribute(ExprPtr object) {
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

ExprPtr Parser::parse_subscript(ExprPtr object) {
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

CallArguments Parser::parse_arguments() {
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

int Parser::height(const CallArguments& arguments) {
  int result = 0;
  for (const ExprPtr& argument : arguments.positional) result = std::max(result, argument->height);
  for (const auto& [name, argument] : arguments.keyword) result = std::max(result, argument->height);
  if (arguments.more_positional) result = std::max(result, arguments.more_positional->height);
  if (arguments.more_keyword) result = std::max(result, arguments.more_keyword->height);
  return result;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  auto node = std::make_unique<CallExpr>(current().line);
  node->callee = std::move(callee);
  node->arguments = parse_arguments();
  node->height = height(node->arguments) + 1;
  const Expr* const child = node->callee.get();
  return finish(std::move(node), {child});
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_any_name();
  while (skip_op(".")) name += "." + expect_any_name();
  return name;
}

ExprPtr Parser::parse_filters(ExprPtr value, bool begins_inline) {
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

ExprPtr Parser::parse_test(ExprPtr value) {
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

}  // namespace pagoda::jinja
