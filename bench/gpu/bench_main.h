#pragma once
// The frame of a device benchmark: NAME cuda|emulated opens that device and runs the benchmark on it. Exit
// code 2: wrong arguments; 1: an error, reported in one line.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "device/test_device.h"

namespace pagoda::device {

// `more`: further words of the usage text; `wrong`: true if the arguments are wrong. `run` receives the
// device, which it may keep, and whether it is a GPU.
template <class Run>
int bench_main(const char* name, const char* more, bool wrong, int argc, char** argv, const Run& run) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (wrong || (kind != "cuda" && kind != "emulated")) {
    std::fprintf(stderr, "%s cuda|emulated%s\n", name, more);
    return 2;
  }
  ::setenv("PAGODA_TEST_DEVICE", kind.c_str(), 1);
  auto device = open_test_device();
  const Status status = device ? run(*std::move(device), kind == "cuda") : device.error();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", name, std::string(status.message()).c_str());
  return 1;
}

}  // namespace pagoda::device
