#pragma once
// The functions every template finds: range, dict, namespace, cycler, joiner, raise_exception,
// strftime_now. lipsum is there and refuses.
#include <map>
#include <string>

#include "jinja/render.h"

namespace pagoda::jinja {

void add_globals(std::map<std::string, Value, std::less<>>& variables);

}  // namespace pagoda::jinja
