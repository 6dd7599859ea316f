#pragma once
// How a template takes a message's content: as text, or also as a list of parts.
// Source: vLLM's detection of "string" and "openai" content formats.
#include "jinja/ast.h"

namespace pagoda::jinja {

struct ContentUse {
  bool iterates = false;      // loops over a message's content
  bool tests_string = false;  // asks whether something `is string`, so it takes text too
};

ContentUse find_content_use(const TemplateCode& code);

}  // namespace pagoda::jinja
