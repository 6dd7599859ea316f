#pragma once
// Under which names files call the families that can be read: for lists and pages, not for reading.
#include <string_view>
#include <vector>

namespace pagoda {

struct ConfigFamilyName {
  std::string_view class_name, base_name;  // "LlamaForCausalLM", "LlamaModel"
  std::string_view model_type;
};
std::vector<ConfigFamilyName> config_family_names();
std::vector<std::string_view> gguf_family_names();

}  // namespace pagoda
