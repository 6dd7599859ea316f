#include "jinja/parser.h"

#include "jinja/parser_state.h"

namespace pagoda::jinja {

TemplateCode Parser::run() {
  TemplateCode code;
  code.body = parse_body({});
  return code;
}

[[noreturn]] void Parser::fail_at(int line, std::string message) const {
  throw TemplateError(ErrorKind::syntax, std::move(message), line);
}

[[noreturn]] void Parser::expected(std::string_view what) const {
  fail_here("expected " + std::string(what) + ", got " + describe(current()));
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) expected("'" + std::string(op) + "'");
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) expected("'" + std::string(name) + "'");
}

std::string Parser::expect_any_name() {
  if (current().kind != TokenKind::name) expected("a name");
  return next().text;
}

void Parser::expect_kind(TokenKind kind, std::string_view what) {
  if (current().kind != kind) expected(what);
  next();
}

Body Parser::parse_body(std::initializer_list<std::string_view> ends) {
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

Body Parser::parse_block_body(std::initializer_list<std::string_view> ends) {
  skip_op(":");
  expect_kind(TokenKind::block_end, "end of statement block");
  return parse_body(ends);
}

Body Parser::parse_block_body_and_end(std::string_view end) {
  Body body = parse_block_body({end});
  next();
  return body;
}

std::unique_ptr<Statement> Parser::parse_statement() {
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
    return std::make_unique<JumpStatement>(tag == "break" ? StatementKind::break_ : StatementKind::continue_,
                                           line);
  }
  if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
    auto node = std::make_unique<UnsupportedStatement>(line, tag);
    while (current().kind != TokenKind::block_end && current().kind != TokenKind::end) next();
    return node;
  }
  if (tag == "autoescape") fail_here("the tag 'autoescape' is not supported");
  fail_here("Encountered unknown tag '" + tag + "'.");
}

std::unique_ptr<Statement> Parser::parse_for(int line) {
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

std::unique_ptr<Statement> Parser::parse_if(int line) {
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

std::unique_ptr<Statement> Parser::parse_set(int line) {
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

void Parser::parse_parameters(MacroCode& macro) {
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

std::unique_ptr<Statement> Parser::parse_macro(int line) {
  next();
  auto node = std::make_unique<MacroStatement>(line);
  node->macro.name = parse_target_name();
  parse_parameters(node->macro);
  node->macro.body = parse_block_body_and_end("endmacro");
  return node;
}

std::unique_ptr<Statement> Parser::parse_call_block(int line) {
  next();
  auto node = std::make_unique<CallBlockStatement>(line);
  if (current().is_op("(")) parse_parameters(node->caller);
  node->call = parse_expression();
  if (node->call->kind != ExprKind::call) fail_at(line, "expected call");
  node->caller.body = parse_block_body_and_end("endcall");
  return node;
}

std::unique_ptr<Statement> Parser::parse_filter_block(int line) {
  next();
  auto node = std::make_unique<FilterBlockStatement>(line);
  node->filter = parse_filters(nullptr, true);
  node->body = parse_block_body_and_end("endfilter");
  return node;
}

std::unique_ptr<Statement> Parser::parse_with(int line) {
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

std::unique_ptr<Statement> Parser::parse_print(int line) {
  next();
  auto node = std::make_unique<OutputStatement>(line);
  while (current().kind != TokenKind::block_end) {
    if (!node->parts.empty()) expect_op(",");
    node->parts.push_back({"", parse_expression()});
  }
  return node;
}

std::unique_ptr<Statement> Parser::parse_block(int line) {
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

std::string Parser::parse_target_name() {
  const int line = current().line;
  std::string name = expect_any_name();
  if (is_literal_name(name)) fail_at(line, "can't assign to 'name'");
  return name;
}

bool Parser::is_literal_name(std::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

Target Parser::parse_target(bool with_namespace, std::string_view end_name) {
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

Target Parser::parse_one_target(bool with_namespace) {
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

TemplateCode parse(std::vector<Token> tokens, int max_depth) {
  return Parser(std::move(tokens), max_depth).run();
}

}  // namespace pagoda::jinja
