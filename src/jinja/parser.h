#pragma once
// Parser: converts tokens to a syntax tree by jinja2's grammar, with the extensions that transformers enables
// (break, continue, generation). Names are resolved afterwards (scope.h).
#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace pagoda::jinja {

// Throws TemplateError. Nesting is bounded: brackets and blocks by max_depth, and the height of any single
// expression (a chain of operators is as high as it is long) by a constant near CPython's own limit.
TemplateCode parse(std::vector<Token> tokens, int max_depth);

}  // namespace pagoda::jinja
