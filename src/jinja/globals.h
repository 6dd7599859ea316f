#pragma once
// The functions available to every template: range, dict, namespace, cycler, joiner, raise_exception,
// strftime_now. lipsum exists but fails when called.
#include <map>
#include <string>

#include "jinja/render.h"

namespace pagoda::jinja {

void add_globals(std::map<std::string, Value, std::less<>>& variables);

}  // namespace pagoda::jinja
