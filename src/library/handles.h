#pragma once
// The library's two handles, and helpers for the functions of pagoda.h: they stop exceptions, keep the error
// message for the calling thread, and hand over memory to the caller. Threads: any.
#include <pagoda.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "base/status.h"
#include "base/strings.h"
#include "cli/assembly/assemble.h"
#include "cli/flags/engine_flags.h"
#include "library/output_queue.h"

namespace pagoda {

struct LibraryEngine {
  EngineFlags flags;
  std::unique_ptr<AssembledEngine> assembled;
  std::atomic<std::uint64_t> next_id{1};
};

// Keeps the message for pagoda_last_error and returns the code.
pagoda_status fail(pagoda_status code, std::string message);
pagoda_status record_error(const Status& status);

// Runs `body` and converts exceptions to codes: none leaves the library.
template <class Body>
pagoda_status guarded(Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(PAGODA_INTERNAL, "there is not enough memory");
  } catch (const std::exception& error) {
    return fail(PAGODA_INTERNAL, error.what());
  }
}

inline pagoda_status missing(const char* what) { return fail(PAGODA_INVALID, concat(what, " is NULL")); }

// A copy for the caller, to be freed by pagoda_free.
template <class T>
T* hand_over(const T* data, std::size_t count) {
  T* copy = static_cast<T*>(std::malloc(sizeof(T) * (count + 1)));
  if (copy == nullptr) throw std::bad_alloc();
  if (count > 0) std::memcpy(copy, data, sizeof(T) * count);
  copy[count] = T{};
  return copy;
}
inline void hand_over(const std::string& from, char** text, std::size_t* length) {
  *text = hand_over(from.data(), from.size());
  *length = from.size();
}

// Copies the fields that the caller's version of the struct has, and zeroes fields unknown here.
template <class T>
pagoda_status copy_out(const T& from, T* to, std::size_t size) {
  std::memcpy(to, &from, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<char*>(to) + sizeof(T), 0, size - sizeof(T));
  return PAGODA_OK;
}

}  // namespace pagoda

struct pagoda_engine {
  std::shared_ptr<pagoda::LibraryEngine> engine;  // shared with its queues
};

struct pagoda_queue {
  std::shared_ptr<pagoda::LibraryEngine> engine;
  pagoda::OutputQueue outputs;
};
