# Language level, warnings, optimisation, sanitizers: one place for every target.
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
  # What it has to let pass to know precompiled headers again.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
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
# What a fuzzing or a sanitized build adds to each file. Fuzzed are the rooms that parse: pagoda_library's NOT_FUZZED
# takes it away from the others, whose files take twice as long with it.
set(PAGODA_INSTRUMENTATION "")
if(PAGODA_FUZZ)
  list(APPEND PAGODA_INSTRUMENTATION -fsanitize=fuzzer-no-link)  # coverage; the driver is linked per target
endif()
if(PAGODA_SANITIZE)
  # An instrumented loop may be one that the compiler no longer unrolls: nothing to stop for.
  list(APPEND PAGODA_INSTRUMENTATION -fsanitize=${PAGODA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1
                                     -Wno-pass-failed)
  add_link_options(-fsanitize=${PAGODA_SANITIZE})
else()
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
add_compile_options(${PAGODA_INSTRUMENTATION})
