#pragma once
// MpiFunctions: what the program calls in libpagoda_mpi.so, which is linked to MPI and opened only under a
// launcher: so the program starts without MPI, and without MPI_Init's 0.4 s. Plain C types, since the two may
// have different C++ runtimes. start_… begins one operation; test() says when it is done; one at a time.
// All return 0, or an MPI error code.
#include <cstdint>

struct MpiFunctions {
  int (*init)(int* rank, int* size);
  int (*start_broadcast)(void* data, int bytes);           // from rank 0
  int (*start_sum)(float* data, int count);                // in place, on every rank
  int (*start_all_gather)(float* all, const int* counts);  // floats of each rank, its own in their place
  int (*start_gather)(const void* mine, void* all, const int* counts);  // bytes of each rank, to rank 0
  int (*start_barrier)();
  int (*test)(int* done);
  void (*describe)(int error, char* text, int size);
  void (*abort)(int code);  // ends every rank
  int (*finalize)();
};

// The one symbol of the library; null: it was built for another version of this header.
inline constexpr int kMpiFunctionsVersion = 2;
using GetMpiFunctions = const MpiFunctions* (*)(int version);
