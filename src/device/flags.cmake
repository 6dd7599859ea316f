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
  set_source_files_properties(${device_hooked} PROPERTIES COMPILE_OPTIONS
                              "-fno-sanitize=all;-fsanitize=thread;-fno-builtin;-Wno-unused-function")
endif()
# Other sanitizers than the precompiled headers'.
set_source_files_properties(${device_hooked} ${device_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
# A library with cuBLASLt's calls, which the test of those who call it opens.
if(TARGET device_test)
  add_library(fake_cublaslt MODULE device/cuda/fake_cublaslt.cpp)
  add_dependencies(device_test fake_cublaslt)
  target_compile_definitions(device_test PRIVATE PAGODA_FAKE_CUBLASLT="$<TARGET_FILE:fake_cublaslt>")
endif()
