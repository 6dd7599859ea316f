# pagoda_precompile(TARGET KIND [HEADER...]): if PAGODA_PRECOMPILE is on, TARGET uses a precompiled header with the headers
# that most files include; parsing them takes more than half of a cold build. KIND: std, the standard library; plain, the
# same without instrumentation; json, also Boost.JSON; test, also GoogleTest. With HEADERs, TARGET gets a precompiled header
# of its own that adds them: headers that most of its sources include and that are slow to parse. Changing one of them
# recompiles all sources of TARGET. Off by default, because ccache then shares less between checkouts; script/build and
# script/test turn it on. Every file must still include what it uses, which builds without precompiled headers verify.
option(PAGODA_PRECOMPILE "Precompile the headers that most files include" OFF)
set(PAGODA_STD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <fstream>
  <functional> <future> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view>
  <thread> <unordered_map> <unordered_set> <utility> <variant> <vector>)

function(pagoda_precompile target kind)
  if(NOT PAGODA_PRECOMPILE)
    return()
  endif()
  # Without a timestamp in the precompiled header, ccache can recognise it.
  target_compile_options(${target} PRIVATE -Xclang -fno-pch-timestamp)
  if(ARGN)
    target_precompile_headers(${target} PRIVATE ${PAGODA_STD_HEADERS})
    if(kind MATCHES "json|test")
      target_precompile_headers(${target} PRIVATE <boost/json.hpp>)
    endif()
    if(kind STREQUAL "test")
      target_precompile_headers(${target} PRIVATE <gtest/gtest.h>)
    endif()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    return()
  endif()
  if(NOT TARGET precompiled_${kind})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled_${kind}.cc CONTENT "" @ONLY)
    add_library(precompiled_${kind} OBJECT ${PROJECT_BINARY_DIR}/precompiled_${kind}.cc)
    target_compile_options(precompiled_${kind} PRIVATE -Xclang -fno-pch-timestamp)
    target_precompile_headers(precompiled_${kind} PRIVATE ${PAGODA_STD_HEADERS})
    if(kind STREQUAL "plain")
      pagoda_plain_options(precompiled_plain)
    elseif(NOT kind STREQUAL "std")
      target_link_libraries(precompiled_${kind} PRIVATE third_boost_json)
      target_precompile_headers(precompiled_${kind} PRIVATE <boost/json.hpp>)
    endif()
    if(kind STREQUAL "test")  # used by executables, which are compiled with -fPIE, not -fPIC
      pagoda_test_options(precompiled_test)
      set_target_properties(precompiled_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(precompiled_test PRIVATE -fPIE)
      target_link_libraries(precompiled_test PRIVATE GTest::gtest)
      target_precompile_headers(precompiled_test PRIVATE <gtest/gtest.h>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM precompiled_${kind})
endfunction()
