#pragma once
// The work of compiling a grammar, counted in XGrammar's loops. Whether a grammar is too expensive thus
// depends only on its text, not on the load of the machine, and a compilation that no request waits for can
// be stopped. Units: about one edge of an automaton or one step of a parser, some 20 ns each. Threads: each
// counts its own work. XgrammarWork (inside.h) sets the limit; without it compilations are not stopped. A
// cache hit counts as the work of the original computation; otherwise a grammar that was refused could be
// accepted the next time.
#include <cstdint>

namespace pagoda {

extern __thread std::int64_t work_left;  // units left until next_slice() must check again

// Throws an exception that ends the compilation if the limit is reached or the compilation was given up.
void next_slice();

std::int64_t work_done();  // by this thread, since its bound was set

inline void spend(std::int64_t work = 1) {
  if ((work_left -= work) < 0) next_slice();
}

}  // namespace pagoda
