#pragma once
// FakeLibrary: a test's access to one of the libraries fake_*.cpp, opened instead of a real one: the log of
// its calls, and the call that should fail.
#include <array>
#include <string>

#include "base/check.h"
#include "base/opened_library.h"

namespace pagoda::device {

class FakeLibrary {
 public:
  explicit FakeLibrary(const char* path) {
    CHECK(library_.open(std::array{path}).ok());
    reset();
  }
  void reset(const char* fail = "", int status = 0) {
    find<void(const char*, int)>("fake_reset")(fail, status);
  }
  std::string log() { return find<const char*()>("fake_log")(); }
  int alive() { return find<int()>("fake_alive")(); }

  template <class Function>
  Function* find(const char* name) {
    Function* function = nullptr;
    CHECK(library_.find(name, function).ok());
    return function;
  }

 private:
  OpenedLibrary library_;
};

}  // namespace pagoda::device
