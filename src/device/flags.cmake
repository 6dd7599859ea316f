# Kernel sources are compiled for the host with a hook at every access, which emulated/access_hooks.cc has. A build
# with the thread sanitizer has those names for itself: there, kernels run unchecked, and the fibers and what runs on
# them are not instrumented, since it does not know of their stacks.
set(device_hooked ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/kernel_entries.cc
                  ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/planted_kernels_test.cc
                  ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/planted_lines_test.cc
                  ${CMAKE_CURRENT_SOURCE_DIR}/device/emulated/planted_products_test.cc)
if(PAGODA_SANITIZE MATCHES "thread")
  file(GLOB_RECURSE device_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/device/*.cc)
  set_source_files_properties(${device_sources} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=thread"
                                                           COMPILE_DEFINITIONS PAGODA_DEVICE_UNCHECKED)
else()
  # -fno-builtin: no loop becomes a call of memcpy, which would pass by the hooks.
  # Loops stay loops, though kernels ask for more: unrolled and hooked, they take twice as long to compile.
  set(device_loops "")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(device_loops ";-mllvm;-pragma-unroll-threshold=1;-Wno-pass-failed")
  endif()
  set_source_files_properties(${device_hooked} PROPERTIES COMPILE_OPTIONS
                              "-fno-sanitize=all;-fsanitize=thread;-fno-builtin;-Wno-unused-function${device_loops}")
endif()
# What a thread of each kernel has of registers (emulated/register_file.cc).
file(STRINGS ${CMAKE_CURRENT_SOURCE_DIR}/device/cuda/resources.txt device_resources REGEX " sm_")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/device/cuda/resources.txt)
list(TRANSFORM device_resources REPLACE "^([a-z0-9_]+) +sm_[a-z0-9]+ +([0-9]+) .*$" "{\"\\1\", \\2},")
list(JOIN device_resources "\n" device_resources)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/registers/device/kernel_registers.inc CONTENT "${device_resources}\n" @ONLY)
target_include_directories(pagoda_device PRIVATE ${PROJECT_BINARY_DIR}/registers)
# Other sanitizers than the precompiled headers'.
set_source_files_properties(${device_hooked} ${device_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# Libraries with the calls of cuBLASLt, NCCL and NVML, which the tests of those who call them open.
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
