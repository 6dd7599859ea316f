#pragma once
// GET / and the files of the page (page/page_files.h): a row for each file, open to anyone, so that the page
// can ask for a key. Threads: any.
#include <vector>

#include "server/routes.h"

namespace pagoda {

std::vector<Route> page_routes();

}  // namespace pagoda
