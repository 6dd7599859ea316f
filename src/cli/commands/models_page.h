#pragma once
// Generates docs/models.md from the families' rows (models/family.h) and the names known to the loader.
#include <string>

namespace pagoda {

std::string models_page();

}  // namespace pagoda
