# Language level, warnings, optimisation and sanitizers of every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# CHECK() stays on in every build type, so NDEBUG only removes third-party assertions.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(CCACHE ccache)
if(CCACHE)
  # The sloppiness settings are required for cache hits with precompiled headers. CCACHE_DEPEND hashes the files that
  # the compiler reports as read, which avoids a preprocessor run on each miss.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Werror -fstack-protector-strong
                    -ffp-contract=off)  # contraction would let the compiler change result bits per call site
add_compile_definitions(_GLIBCXX_ASSERTIONS)
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)  # tables of functions are read-only once the program runs
# _FORTIFY_SOURCE: the C library checks buffer sizes that the compiler can determine, also at run time. It needs
# optimised code; sanitized builds leave it out, since sanitizers check the same calls.
set(PAGODA_FORTIFY "")
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(PAGODA_FORTIFY -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
# Options that a fuzzing or sanitized build adds to each file, and options that it leaves out. Only folders that parse
# input are fuzzed. The others (NOT_FUZZED of pagoda_library) are compiled without instrumentation, in half the time.
set(PAGODA_INSTRUMENTATION "")
set(PAGODA_LEFT_OUT "")
if(PAGODA_FUZZ)
  list(APPEND PAGODA_INSTRUMENTATION -fsanitize=fuzzer-no-link)  # coverage; the driver is linked per target
endif()
if(PAGODA_SANITIZE)
  # -Wno-pass-failed: the compiler may fail to unroll an instrumented loop, which is harmless. -fno-sanitize=function:
  # functions of libraries opened at run time are called through types declared here, not those of their headers.
  list(APPEND PAGODA_INSTRUMENTATION -fsanitize=${PAGODA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1
                                     -fno-sanitize=function -Wno-pass-failed)
  set(PAGODA_LEFT_OUT ${PAGODA_FORTIFY})
  add_link_options(-fsanitize=${PAGODA_SANITIZE})
else()
  add_compile_options(${PAGODA_FORTIFY})
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
add_compile_options(${PAGODA_INSTRUMENTATION})

# Compiles `target` as in a build without instrumentation.
function(pagoda_plain_options target)
  get_target_property(options ${target} COMPILE_OPTIONS)
  list(REMOVE_ITEM options ${PAGODA_INSTRUMENTATION})
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${options};${PAGODA_LEFT_OUT}")
endfunction()

# Compiles tests without optimisation, in half the time; the code under test stays optimised. Sanitized tests stay
# optimised, since they are slow enough.
function(pagoda_test_options target)
  if(NOT PAGODA_SANITIZE)
    target_compile_options(${target} PRIVATE -O0 -U_FORTIFY_SOURCE)
  endif()
endfunction()
