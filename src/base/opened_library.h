#pragma once
// OpenedLibrary: a shared library that is opened on demand at run time, and its functions by name.
// Errors: unavailable, with the name of the library or function. Threads: one. Owner: whoever opened it.
#include <dlfcn.h>

#include <span>
#include <string>

#include "base/status.h"
#include "base/strings.h"

namespace pagoda {

struct OpenedLibrary {
  std::string name;
  void* opened = nullptr;

  OpenedLibrary() = default;
  OpenedLibrary(const OpenedLibrary&) = delete;
  OpenedLibrary& operator=(const OpenedLibrary&) = delete;
  ~OpenedLibrary() {
    if (opened != nullptr) dlclose(opened);
  }

  // Opens the first of `names` that can be loaded. A library that exists may still be unreadable or lack one
  // of its own dependencies: the error then says so.
  Status open(std::span<const char* const> names) {
    std::string why;
    for (const char* const each : names) {
      name = each;
      opened = dlopen(each, RTLD_NOW | RTLD_LOCAL);
      if (opened != nullptr) return ok_status();
      if (const char* const error = dlerror(); error != nullptr && why.empty()) why = error;
    }
    return unavailable(why.find(concat(names.front(), ": cannot open shared object file: No such file")) == 0
                           ? concat("there is no ", names.front(), " here")
                           : concat("there is no ", names.front(), " that can be opened here: ", why));
  }

  // The library stays open until the process ends.
  void keep() { opened = nullptr; }

  template <class Function>
  Status find(const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(opened, symbol));
    return function != nullptr ? ok_status() : unavailable(concat(name, " has no ", symbol));
  }
};

}  // namespace pagoda
