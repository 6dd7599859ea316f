#pragma once
// GET / and the files of the page (page/page_files.h): one route per file, served without a key, so that the
// page can ask for one. Threads: any.
#include <vector>

#include "server/routes.h"

namespace pagoda {

std::vector<Route> page_routes();

}  // namespace pagoda
