# pagoda_precompile(TARGET KIND [HEADER...]): TARGET reads the headers that most files include out of one file made once,
# where PAGODA_PRECOMPILE is on: parsing them is more than half of a cold build. KIND: std, the standard library's; plain,
# these without instrumentation; json, Boost.JSON's as well; test, GoogleTest's as well. HEADERs are added to a file of
# TARGET's own: what most of its sources include and is slow to parse; a change in one compiles all of them anew. Off by
# default, since ccache then shares less between checkouts; script/build and script/test turn it on. No file may rely on
# it: each includes what it uses, which every build without it shows.
option(PAGODA_PRECOMPILE "Precompile the headers that most files include" OFF)
set(PAGODA_STD_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <deque> <filesystem> <fstream>
  <functional> <future> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string> <string_view>
  <thread> <unordered_map> <unordered_set> <utility> <variant> <vector>)

function(pagoda_precompile target kind)
  if(NOT PAGODA_PRECOMPILE)
    return()
  endif()
  # Without the time in it ccache knows it again.
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
    if(kind STREQUAL "test")  # of programs, whose code is not a library's
      pagoda_test_options(precompiled_test)
      set_target_properties(precompiled_test PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(precompiled_test PRIVATE -fPIE)
      target_link_libraries(precompiled_test PRIVATE GTest::gtest)
      target_precompile_headers(precompiled_test PRIVATE <gtest/gtest.h>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM precompiled_${kind})
endfunction()
