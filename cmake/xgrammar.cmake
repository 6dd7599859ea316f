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

# A few lines of four files are changed, in copies within the build folder.
function(pagoda_change_text name old new)
  string(REPLACE "${old}" "${new}" changed "${${name}}")
  if("${changed}" STREQUAL "${${name}}")
    message(FATAL_ERROR "XGrammar has no '${old}': cmake/xgrammar.cmake fits the pinned version alone")
  endif()
  set(${name} "${changed}" PARENT_SCOPE)
endfunction()
macro(pagoda_use_copy file name)
  file(CONFIGURE OUTPUT xgrammar/${file} CONTENT "${${name}}" @ONLY)
  list(REMOVE_ITEM xgrammar_sources ${PAGODA_XGRAMMAR_SOURCE}/cpp/${file})
  list(APPEND xgrammar_sources ${PROJECT_BINARY_DIR}/xgrammar/${file})
endmacro()
# Copies of a mask share what is large; and a mask's size has its place in a table in it, or a bound on many small
# ones would be none. A header: its readers read the copy first, and the guard keeps the other out.
set(inner compiled_grammar_impl.h)
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/${inner} text)
pagoda_change_text(text "std::vector<int32_t> uncertain_indices;" "pagoda::SharedIndices uncertain_indices;")
pagoda_change_text(text "return MemorySize(mask.uncertain_indices)" "return 320 + MemorySize(mask.uncertain_indices)")
file(CONFIGURE OUTPUT xgrammar/${inner} CONTENT "#include \"shared_indices.h\"\n${text}" @ONLY)
# What leaves the cache of masks is given back: else the place keeps it, with the room of the largest mask it ever held.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/grammar_functor.cc text)
pagoda_change_text(text "      shard.cache_list.Erase(oldest_it);"
                        "      oldest_it->second = AdaptiveTokenMask();\n      shard.cache_list.Erase(oldest_it);")
pagoda_use_copy(grammar_functor.cc text)
# A class of characters takes what is UTF-8 alone (inside.cpp has the function): no surrogates, nothing longer than
# it must be. Else a reader counts more characters than 'maxLength' says.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/fsm_builder.cc text)
pagoda_change_text(text "void AddPackedUTF8RangeEdges(" "void AddAnyPackedRangeEdges(")
pagoda_use_copy(fsm_builder.cc text)
# Escapes of surrogates in strings come in pairs: a lone one is no character, and strict readers refuse it.
file(READ ${PAGODA_XGRAMMAR_SOURCE}/cpp/json_schema_converter.cc text)
pagoda_change_text(text "  builder_.UpdateRuleBody(kBasicEscape, Choice({escaped_character, unicode_escape}));" [[
  const int32_t d = builder_.AddCharacterClass({{'D', 'D'}, {'d', 'd'}}), hex = hexadecimal_character;
  const int32_t not_d = builder_.AddCharacterClass({{'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}, {'0', '9'}});
  const int32_t first = builder_.AddCharacterClass({{'8', '9'}, {'A', 'B'}, {'a', 'b'}});
  const int32_t second = builder_.AddCharacterClass({{'C', 'F'}, {'c', 'f'}});
  builder_.UpdateRuleBody(
      kBasicEscape,
      Choice({escaped_character, Sequence({ByteString("u"), not_d, hex, hex, hex}),
              Sequence({ByteString("u"), d, builder_.AddCharacterClass({{'0', '7'}}), hex, hex}),
              Sequence({ByteString("u"), d, first, hex, hex, ByteString("\\u"), d, second, hex, hex})}));]])
pagoda_use_copy(json_schema_converter.cc text)

add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources}
            ${PROJECT_SOURCE_DIR}/cmake/xgrammar/inside.cpp ${PROJECT_SOURCE_DIR}/cmake/xgrammar/shared_masks.cpp)
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
