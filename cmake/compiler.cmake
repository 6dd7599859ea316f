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
  # What it has to let pass to know precompiled headers again; and by the files read, without preprocessing each a second time.
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
# The C library checks what sizes the compiler can tell, also while the program runs. It needs optimised code, and
# sanitizers look at the same calls themselves.
set(PAGODA_FORTIFY "")
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(PAGODA_FORTIFY -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
endif()
# What a fuzzing or a sanitized build adds to each file, and what it leaves out. Fuzzed are the rooms that parse:
# pagoda_library's NOT_FUZZED compiles the others as every other build does, for they would take twice as long.
set(PAGODA_INSTRUMENTATION "")
set(PAGODA_LEFT_OUT "")
if(PAGODA_FUZZ)
  list(APPEND PAGODA_INSTRUMENTATION -fsanitize=fuzzer-no-link)  # coverage; the driver is linked per target
endif()
if(PAGODA_SANITIZE)
  # An instrumented loop may be one that the compiler no longer unrolls: nothing to stop for. Functions of libraries
  # that are opened at run time have types of our own here, and of their makers there.
  list(APPEND PAGODA_INSTRUMENTATION -fsanitize=${PAGODA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1
                                     -fno-sanitize=function -Wno-pass-failed)
  set(PAGODA_LEFT_OUT ${PAGODA_FORTIFY})
  add_link_options(-fsanitize=${PAGODA_SANITIZE})
else()
  add_compile_options(${PAGODA_FORTIFY})
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
add_compile_options(${PAGODA_INSTRUMENTATION})

# Compiles `target` as a build without instrumentation does.
function(pagoda_plain_options target)
  get_target_property(options ${target} COMPILE_OPTIONS)
  list(REMOVE_ITEM options ${PAGODA_INSTRUMENTATION})
  set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${options};${PAGODA_LEFT_OUT}")
endfunction()

# Tests are compiled in half the time when they are not optimised, and what they test is. Sanitized ones stay as they are:
# each step of theirs costs enough.
function(pagoda_test_options target)
  if(NOT PAGODA_SANITIZE)
    target_compile_options(${target} PRIVATE -O0 -U_FORTIFY_SOURCE)
  endif()
endfunction()
