# XGrammar, from source: script/setup puts it into the cache folder. Without it PAGODA_XGRAMMAR is off, and the
# program says so to whoever asks for structured output. -DPAGODA_XGRAMMAR_SOURCE=DIR names another folder.
set(cache "$ENV{PAGODA_CACHE}")
if(NOT cache)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  string(APPEND cache "/pagoda")
endif()
file(STRINGS ${PROJECT_SOURCE_DIR}/script/xgrammar.txt requirement LIMIT_COUNT 1)
string(REGEX MATCH "^xgrammar==([^ ]+)" _ "${requirement}")
set(PAGODA_XGRAMMAR_SOURCE "${cache}/xgrammar-${CMAKE_MATCH_1}" CACHE PATH "Source of XGrammar")
if(EXISTS ${PAGODA_XGRAMMAR_SOURCE}/CMakeLists.txt)
  set(PAGODA_XGRAMMAR ON)
else()
  set(PAGODA_XGRAMMAR OFF)
  message(STATUS "No XGrammar in ${PAGODA_XGRAMMAR_SOURCE}: no structured output (script/setup fetches it)")
  return()
endif()

# A library of its own, from its files alone: its CMakeLists.txt wants link-time optimisation, and its own
# warnings as errors. Its exceptions name its source files; the prefix map keeps this machine's paths out of them.
file(GLOB xgrammar_sources ${PAGODA_XGRAMMAR_SOURCE}/cpp/*.cc ${PAGODA_XGRAMMAR_SOURCE}/cpp/support/*.cc
     ${PAGODA_XGRAMMAR_SOURCE}/cpp/converter_ext/*.cc)
list(REMOVE_ITEM xgrammar_sources ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_compiler.cc)  # within shared_masks.cpp
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources}
            ${PROJECT_SOURCE_DIR}/cmake/xgrammar/inside.cpp ${PROJECT_SOURCE_DIR}/cmake/xgrammar/shared_masks.cpp)
# Two lines of one header are changed, in a copy that its readers read first: the guard keeps the other out. Copies
# of a mask share what is large; and a mask's size has its place in a table in it, or a bound on many small ones
# would be none.
set(inner compiled_grammar_impl.h)
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/${inner} text)
string(REPLACE "std::vector<int32_t> uncertain_indices;" "pagoda::SharedIndices uncertain_indices;" once "${text}")
string(REPLACE "return MemorySize(mask.uncertain_indices)" "return 320 + MemorySize(mask.uncertain_indices)" twice
       "${once}")
if(text STREQUAL once OR once STREQUAL twice)
  message(FATAL_ERROR "${inner} of XGrammar is not as expected: cmake/xgrammar.cmake fits the pinned version alone")
endif()
file(CONFIGURE OUTPUT xgrammar/${inner} CONTENT "#include \"shared_indices.h\"\n${twice}" @ONLY)
set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17)
target_include_directories(xgrammar SYSTEM PUBLIC ${PAGODA_XGRAMMAR_SOURCE}/include
                                                  ${PAGODA_XGRAMMAR_SOURCE}/3rdparty/dlpack/include)
target_include_directories(xgrammar SYSTEM PRIVATE ${PAGODA_XGRAMMAR_SOURCE}/3rdparty/picojson
                                                   ${PAGODA_XGRAMMAR_SOURCE}/cpp)
target_include_directories(xgrammar SYSTEM INTERFACE ${PROJECT_SOURCE_DIR}/cmake)
target_include_directories(xgrammar PRIVATE ${PROJECT_SOURCE_DIR}/cmake/xgrammar)
file(RELATIVE_PATH relative ${PROJECT_BINARY_DIR} ${PAGODA_XGRAMMAR_SOURCE})  # as ccache may have it
target_compile_options(xgrammar PRIVATE -w -Wno-error -ffile-prefix-map=${PAGODA_XGRAMMAR_SOURCE}/=
                                        -ffile-prefix-map=${relative}/=)
foreach(source IN LISTS xgrammar_sources ITEMS ${PROJECT_SOURCE_DIR}/cmake/xgrammar/inside.cpp
                                               ${PROJECT_SOURCE_DIR}/cmake/xgrammar/shared_masks.cpp)
  file(STRINGS ${source} reads REGEX "\"(compiled_grammar_impl|grammar_functor)[.]h\"")
  if(reads)
    set_source_files_properties(${source} PROPERTIES
      COMPILE_OPTIONS "-include;${PROJECT_BINARY_DIR}/xgrammar/${inner}")
  endif()
endforeach()
target_compile_definitions(xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
                                            XGRAMMAR_LOG_CUSTOMIZE=1)  # what xgrammar/inside.cpp is for
target_link_libraries(xgrammar PUBLIC Threads::Threads)
