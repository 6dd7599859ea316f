#pragma once
// docs/models.md, made from the families' rows (models/family.h) and the names that the loader knows.
#include <string>

namespace pagoda {

std::string models_page();

}  // namespace pagoda
