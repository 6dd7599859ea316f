#pragma once
// The work of compiling a grammar, counted where XGrammar's loops run, so that a grammar that costs too much
// is given up by its own text alone, whatever the machine is doing, and so that a compilation that nobody
// waits for ends. Units: about one edge of an automaton, or one step of a parser; some 20 ns each. Threads:
// each counts its own work. XgrammarWork (inside.h) sets the bound; without one nothing ends. What is found
// in a cache counts as what it took to make, or a grammar that was refused could be taken when it comes
// again.
#include <cstdint>

namespace pagoda {

extern __thread std::int64_t work_left;  // until next_slice() has to look again

// Throws what ends the compilation.
void next_slice();

std::int64_t work_done();  // by this thread, since its bound was set

inline void spend(std::int64_t work = 1) {
  if ((work_left -= work) < 0) next_slice();
}

}  // namespace pagoda
