# Kernel sources are compiled for the host with a hook at every access; the hooks are in emulated/access_hooks.cc. A
# build with the thread sanitizer uses the same names itself: there, kernels run unchecked, and the fibers and the code
# that runs on them are not instrumented, since the sanitizer does not know their stacks.
set(device_hooked ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/kernel_entries.cc
                  ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/planted_kernels_test.cc
                  ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/planted_lines_test.cc
                  ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/planted_products_test.cc)
if(PAGODA_SANITIZE MATCHES "thread")
  file(GLOB_RECURSE device_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/device/*.cc)
  set_source_files_properties(${device_sources} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=thread"
                                                           COMPILE_DEFINITIONS PAGODA_DEVICE_UNCHECKED)
else()
  # -fno-builtin: otherwise loops become calls of memcpy, which bypass the hooks. Loops are not unrolled, although
  # kernels request it: unrolled and hooked, they take twice as long to compile.
  set(device_loops "")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(device_loops ";-mllvm;-pragma-unroll-threshold=1;-Wno-pass-failed")
  endif()
  set_source_files_properties(${device_hooked} PROPERTIES COMPILE_OPTIONS
                              "-fno-sanitize=all;-fsanitize=thread;-fno-builtin;-Wno-unused-function${device_loops}")
endif()
# The registers per thread of each kernel (emulated/register_file.cc).
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/device/cuda/resources.txt device_resources REGEX " sm_")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/device/cuda/resources.txt)
list(TRANSFORM device_resources REPLACE "^([a-z0-9_]+) +sm_[a-z0-9]+ +([0-9]+) .*$" "{\"\\1\", \\2},")
list(JOIN device_resources "\n" device_resources)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/registers/device/kernel_registers.inc CONTENT "${device_resources}\n" @ONLY)
target_include_directories(pagoda_device PRIVATE ${PROJECT_BINARY_DIR}/registers)
# Their sanitizers differ from those of the precompiled headers.
set_source_files_properties(${device_hooked} ${device_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# Fake libraries with the calls of cuBLASLt, NCCL and NVML, which the tests of the callers open.
if(TARGET device_test)
  foreach(fake fake_cublaslt fake_nccl fake_nvml)
    add_library(${fake} MODULE device/cuda/${fake}.cpp)
    add_dependencies(device_test ${fake})
    string(TOUPPER ${fake} name)
    target_compile_definitions(device_test PRIVATE PAGODA_${name}="$<TARGET_FILE:${fake}>")
  endforeach()
endif()
# The emulated device is for tests. Its kernels take a tenth of a cold build.
if(PAGODA_NATIVE)
  set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/kernel_entries.cc
               APPEND PROPERTY COMPILE_DEFINITIONS PAGODA_NO_EMULATED_KERNELS)
endif()
