// libpagoda_mpi.so: implements MpiFunctions with MPI.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "distributed/plugin/mpi_functions.h"

namespace {

MPI_Request request = MPI_REQUEST_NULL;
int rank = 0, size = 1;
std::vector<int> offsets;  // used by the pending operation

void set_offsets(const int* counts) {
  offsets.assign(static_cast<std::size_t>(size), 0);
  for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] = offsets[i - 1] + counts[i - 1];
}

int init(int* own_rank, int* group_size) {
  int provided = 0;
  int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (error == MPI_SUCCESS) error = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (error == MPI_SUCCESS) error = MPI_Comm_size(MPI_COMM_WORLD, &size);
  *own_rank = rank;
  *group_size = size;
  return error;
}

int start_broadcast(void* data, int bytes) {
  return MPI_Ibcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
}

int start_sum(float* data, int count) {
  return MPI_Iallreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
}

int start_all_gather(float* all, const int* counts) {
  set_offsets(counts);
  return MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, all, counts, offsets.data(), MPI_FLOAT, MPI_COMM_WORLD,
                         &request);
}

int start_gather(const void* mine, void* all, const int* counts) {
  set_offsets(counts);
  return MPI_Igatherv(rank == 0 ? MPI_IN_PLACE : mine, counts[rank], MPI_BYTE, all, counts, offsets.data(),
                      MPI_BYTE, 0, MPI_COMM_WORLD, &request);
}

int start_barrier() { return MPI_Ibarrier(MPI_COMM_WORLD, &request); }

int test(int* done) { return MPI_Test(&request, done, MPI_STATUS_IGNORE); }

void describe(int error, char* text, int text_size) {
  char message[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, message, &length);
  const int count = std::min(length, text_size - 1);
  std::memcpy(text, message, static_cast<std::size_t>(count));
  text[count] = '\0';
}

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

int finalize() { return MPI_Finalize(); }

constexpr MpiFunctions kFunctions = {.init = init,
                                     .start_broadcast = start_broadcast,
                                     .start_sum = start_sum,
                                     .start_all_gather = start_all_gather,
                                     .start_gather = start_gather,
                                     .start_barrier = start_barrier,
                                     .test = test,
                                     .describe = describe,
                                     .abort = abort_all,
                                     .finalize = finalize};

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiFunctions* pagoda_mpi_functions(int version) {
  return version == kMpiFunctionsVersion ? &kFunctions : nullptr;
}
