#pragma once
// build_id(): tells this build of the program from every other: the hash that the linker puts into the file
// (the GNU build id) that holds this function. Empty: the linker put none.
// Threads: any.
#include <string>

namespace pagoda {

std::string build_id();

}  // namespace pagoda
