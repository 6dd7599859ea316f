#pragma once
// Lexer: converts template source to tokens, with jinja2's whitespace control (`-`, `+`, trim_blocks,
// lstrip_blocks, the dropped last newline), comments and raw blocks already applied.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::jinja {

enum class TokenKind : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,  // one of + - * / // ** % ~ ( ) [ ] { } == != < <= > >= = . : | , ;
  end,
};

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  // data, name, string (unescaped), operator
  std::int64_t integer = 0;
  double real = 0;

  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
  bool is_op(std::string_view op) const { return kind == TokenKind::op && text == op; }
};

struct LexerOptions {
  bool trim_blocks = true;
  bool lstrip_blocks = true;
};

// Throws TemplateError (syntax). The last token is `end`.
std::vector<Token> tokenize(std::string_view source, const LexerOptions& options);

std::string describe(const Token& token);  // for error messages

}  // namespace pagoda::jinja
