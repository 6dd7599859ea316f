#include "loader/family_names.h"

#include "loader/config_families.h"
#include "loader/gguf_families.h"

namespace pagoda {

std::vector<ConfigFamilyName> config_family_names() {
  std::vector<ConfigFamilyName> names;
  for (const ConfigFamily& family : config_families())
    names.push_back({family.hf_name, family.base_name, family.model_type});
  for (const ConfigWrapper& wrapper : config_wrappers())
    names.push_back({wrapper.class_name, wrapper.class_name, wrapper.model_type});
  return names;
}

std::vector<std::string_view> gguf_family_names() {
  std::vector<std::string_view> names;
  for (const GgufFamily& family : gguf_families()) names.push_back(family.name);
  return names;
}

}  // namespace pagoda
