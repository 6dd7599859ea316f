#include "jinja/lexer.h"

namespace pagoda::jinja {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "template data";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::end:
      return "end of template";
    case TokenKind::string:
      return "string '" + token.text.substr(0, 40) + "'";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace pagoda::jinja
