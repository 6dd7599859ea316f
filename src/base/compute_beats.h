#pragma once
// How often thread pools of this process have been given work, for a watchdog: a step that is long gets on,
// one that hangs does not. Threads: any.
#include <cstdint>

namespace pagoda {

std::uint64_t compute_beats();

}  // namespace pagoda
