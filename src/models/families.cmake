# Generates the list of all model families: every file NAME.cc of families/ defines pagoda::NAME::family (family.h).
# Included by src/CMakeLists.txt; runs again whenever a file is added to or removed from the folder.
file(GLOB family_files CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/models/families"
     "${CMAKE_CURRENT_SOURCE_DIR}/models/families/*.cc")
list(SORT family_files)
set(family_declarations "")
set(family_pointers "")
foreach(file IN LISTS family_files)
  get_filename_component(name "${file}" NAME_WE)
  string(APPEND family_declarations "namespace ${name} {\nextern const Family family;\n}\n")
  string(APPEND family_pointers "    &${name}::family,\n")
endforeach()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/models/family_list.cc" CONTENT
"// Made by models/families.cmake.
#include \"models/family.h\"

namespace pagoda {

${family_declarations}
std::span<const Family* const> families() {
  static constexpr const Family* all[] = {
${family_pointers}  };
  return all;
}

}  // namespace pagoda
")
target_sources(pagoda_models PRIVATE "${PROJECT_BINARY_DIR}/models/family_list.cc")
