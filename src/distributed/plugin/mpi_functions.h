#pragma once
// MpiFunctions: the functions of libpagoda_mpi.so, which is linked to MPI and opened only under a launcher,
// so that the program starts without MPI and without MPI_Init's 0.4 s. Plain C types, since program and
// library may have different C++ runtimes. start_… begins an operation and test() tells when it is complete;
// one at a time. All functions return 0 or an MPI error code.
#include <cstdint>

struct MpiFunctions {
  int (*init)(int* rank, int* size);
  int (*start_broadcast)(void* data, int bytes);           // from rank 0
  int (*start_sum)(float* data, int count);                // in place, on every rank
  int (*start_all_gather)(float* all, const int* counts);  // each rank's floats; this rank's are in place
  int (*start_gather)(const void* mine, void* all, const int* counts);  // each rank's bytes, to rank 0
  int (*start_barrier)();
  int (*test)(int* done);
  void (*describe)(int error, char* text, int size);
  void (*abort)(int code);  // ends every rank
  int (*finalize)();
};

// The library's only symbol. Returns null if the library was built for another version of this header.
inline constexpr int kMpiFunctionsVersion = 2;
using GetMpiFunctions = const MpiFunctions* (*)(int version);
