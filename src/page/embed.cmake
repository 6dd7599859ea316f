# The page's files as one C++ source: run as `cmake -DOUT=FILE -DHERE=src/page -DASSETS=DIR -P embed.cmake`, and
# included by src/CMakeLists.txt, where it adds the step that runs it. Our own files come from files/, libraries from
# ASSETS, a folder of files named by their SHA-256, as made by script/page_libraries. A library with a missing or
# changed file is left out. File paths contain a hash over all files, so that browsers may cache them forever. Each
# file is embedded both plain and gzipped.
cmake_minimum_required(VERSION 3.25)

if(NOT CMAKE_SCRIPT_MODE_FILE)
  # Found only once: a later configuration may have another cache folder temporarily, e.g. in a test.
  if(NOT IS_DIRECTORY "${PAGODA_UI_ASSETS}")
    set(page_cache "$ENV{PAGODA_CACHE}")
    if(NOT page_cache AND DEFINED ENV{XDG_CACHE_HOME})
      set(page_cache "$ENV{XDG_CACHE_HOME}/pagoda")
    elseif(NOT page_cache)
      set(page_cache "$ENV{HOME}/.cache/pagoda")
    endif()
    set(PAGODA_UI_ASSETS "${page_cache}/page" CACHE PATH "Folder of the page's libraries" FORCE)
  endif()
  set(page_assets "${PAGODA_UI_ASSETS}")
  set(page_here "${CMAKE_CURRENT_SOURCE_DIR}/page")
  set(page_source "${PROJECT_BINARY_DIR}/page/page_data.cc")
  # Evaluated again whenever a file is added to or removed from either folder.
  file(GLOB page_inputs CONFIGURE_DEPENDS "${page_here}/files/*" "${page_here}/files/*/*")
  file(GLOB page_libraries CONFIGURE_DEPENDS "${page_assets}/*")
  list(LENGTH page_libraries page_count)
  if(page_count EQUAL 0)
    message(WARNING "The page's libraries are not in ${page_assets} (script/page_libraries fetches them): "
                    "the page will show plain text.")
  endif()
  add_custom_command(
    OUTPUT "${page_source}"
    COMMAND "${CMAKE_COMMAND}" "-DOUT=${page_source}" "-DHERE=${page_here}" "-DASSETS=${page_assets}" -P
            "${page_here}/embed.cmake"
    DEPENDS "${page_here}/embed.cmake" "${page_here}/libraries.txt" ${page_inputs} ${page_libraries}
    COMMENT "Embedding the page" VERBATIM)
  return()
endif()

get_filename_component(work "${OUT}" DIRECTORY)
set(parts "${work}/files")
file(REMOVE_RECURSE "${parts}")
file(MAKE_DIRECTORY "${parts}")
file(GLOB own RELATIVE "${HERE}/files" "${HERE}/files/*")
foreach(name IN LISTS own)
  file(COPY "${HERE}/files/${name}" DESTINATION "${parts}")
endforeach()

# Libraries, by target, in the order of the list.
set(libraries "")
set(left_out "")
set(package "")
file(STRINGS "${HERE}/libraries.txt" lines)
foreach(line IN LISTS lines)
  if(line MATCHES "^(deb|pypi) ([^ ]+) ([^ ]+) ")
    set(package "${CMAKE_MATCH_2} ${CMAKE_MATCH_3}")
  elseif(line MATCHES "^([a-z.]+) ([0-9a-f]+) (.+)$")
    set(target "${CMAKE_MATCH_1}")
    set(sum "${CMAKE_MATCH_2}")
    set(actual "")
    if(EXISTS "${ASSETS}/${sum}")
      file(SHA256 "${ASSETS}/${sum}" actual)
    endif()
    if(NOT actual STREQUAL sum)
      list(APPEND left_out "${target}")
    endif()
    list(APPEND libraries "${target}")
    list(APPEND pieces_${target} "${sum}")
    list(APPEND packages_${target} "${package}")
  endif()
endforeach()
list(REMOVE_DUPLICATES libraries)
list(REMOVE_DUPLICATES left_out)

# Turns plain scripts into modules; the highlighter must not highlight the page on its own.
set(head_prism.js "self.Prism = { manual: true, disableWorkerMessageHandler: true };\n")
set(tail_prism.js "\nexport default Prism;\n")
set(tail_katex.js "\nexport default self.katex;\n")
set(have "")
foreach(target IN LISTS libraries)
  if(target IN_LIST left_out)
    message("The page does without ${target}")
    continue()
  endif()
  set(text "${head_${target}}")
  foreach(sum package IN ZIP_LISTS pieces_${target} packages_${target})
    file(READ "${ASSETS}/${sum}" piece)
    if(target STREQUAL "licences.txt")
      string(APPEND text "${package}\n\n")
    endif()
    string(APPEND text "${piece}\n")
  endforeach()
  file(WRITE "${parts}/${target}" "${text}${tail_${target}}")
  list(APPEND have "${target}")
endforeach()
set(names "")
foreach(name IN LISTS have)
  string(APPEND names "'${name}', ")
endforeach()
file(WRITE "${parts}/libraries.js" "// Which libraries this build has.\nexport default [${names}];\n")

file(GLOB names RELATIVE "${parts}" "${parts}/*")
list(SORT names)
set(sums "")
foreach(name IN LISTS names)
  file(SHA256 "${parts}/${name}" sum)
  string(APPEND sums "${name} ${sum}\n")
endforeach()
string(SHA256 all "${sums}")
string(SUBSTRING "${all}" 0 12 all)
file(READ "${parts}/index.html" text)
string(REPLACE "@FILES@" "ui/${all}" text "${text}")
file(WRITE "${parts}/index.html" "${text}")

set(types_html "text/html; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_svg "image/svg+xml")
set(types_json "application/json")
set(types_txt "text/plain; charset=utf-8")
function(bytes_of file without_time out)  # as C++ text: 0x.., 0x..,
  file(READ "${file}" hex HEX)
  if(without_time)  # zero bytes 4 to 7 of a gzip file
    string(SUBSTRING "${hex}" 0 8 begin)
    string(SUBSTRING "${hex}" 16 -1 end)
    set(hex "${begin}00000000${end}")
  endif()
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  set(${out} "${hex}" PARENT_SCOPE)
endfunction()

set(arrays "")
set(rows "")
set(number 0)
foreach(name IN LISTS names)
  get_filename_component(ending "${name}" LAST_EXT)
  string(SUBSTRING "${ending}" 1 -1 ending)
  if(NOT DEFINED types_${ending})
    message(FATAL_ERROR "${name}: what media type is that?")
  endif()
  file(SHA256 "${parts}/${name}" sum)
  string(SUBSTRING "${sum}" 0 20 sum)
  file(ARCHIVE_CREATE OUTPUT "${work}/one.gz" PATHS "${parts}/${name}" FORMAT raw COMPRESSION GZip
       COMPRESSION_LEVEL 9)
  bytes_of("${parts}/${name}" OFF plain)
  bytes_of("${work}/one.gz" ON packed)
  set(path "/ui/${all}/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND arrays "constexpr unsigned char kPlain${number}[] = {\n${plain}};\n"
         "constexpr unsigned char kGzip${number}[] = {\n${packed}};\n")
  string(APPEND rows "    {\"${path}\", \"${types_${ending}}\", \"${sum}\", text(kPlain${number}), text(kGzip${number})},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUT}" "// Made by src/page/embed.cmake.
#include \"page/page_files.h\"

namespace pagoda {
namespace {

${arrays}
template <std::size_t N>
std::string_view text(const unsigned char (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), N};
}

}  // namespace

std::span<const PageFile> page_files() {
  static const PageFile kFiles[] = {
${rows}  };
  return kFiles;
}

}  // namespace pagoda
")
