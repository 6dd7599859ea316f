#pragma once
// resolve_names: determines the location of every name of a template by the rules of jinja2's idtracking: an
// `if` has no scope of its own; for, macro, call, with, filter and set blocks do; a name that is stored
// anywhere in a scope belongs to that scope from its beginning. Also rejects what jinja2 rejects at compile
// time: unknown filters and tests (outside an `if`), break outside a loop, assignment to `loop`.
// Source: jinja2 3.1.6, idtracking.py and compiler.py.
#include <string_view>

#include "jinja/ast.h"

namespace pagoda::jinja {

struct KnownNames {
  bool (*is_filter)(std::string_view name);
  bool (*is_test)(std::string_view name);
};

void resolve_names(TemplateCode& code, const KnownNames& known);  // throws TemplateError

}  // namespace pagoda::jinja
