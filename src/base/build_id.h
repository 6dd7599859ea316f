#pragma once
// build_id(): identifies this build of the program: the GNU build id, a hash that the linker writes into the
// binary. Read from the binary that contains this function; empty if the linker wrote no build id.
// Threads: any.
#include <string>

namespace pagoda {

std::string build_id();

}  // namespace pagoda
