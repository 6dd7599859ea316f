#pragma once
// ModelFamily: what people call a family of models, and what was tried of it. A row of families.cc is a row
// of docs/models.md and what `pagoda inspect` says of a file. Not how a family computes: that is
// architecture.h. Owner: nobody, constants. Threads: any.
#include <span>
#include <string_view>

#include "loader/model_config.h"

namespace pagoda {

struct ModelFamily {
  std::string_view name;         // with sizes, as people know them
  std::string_view model_types;  // of config.json, between blanks; "": none of its own
  std::string_view gguf;         // general.architecture, likewise
  std::string_view differs;      // from Llama by this; of encoders: what it is
  std::string_view checked;      // against what
  std::string_view size =
      {};  // of which `config` is the config.json, as far as it says what is kept of tokens
  std::string_view config = {};
  bool vectors = false;        // it makes vectors and no text
  std::string_view note = {};  // behind its names of config.json
  bool only_experts = false;   // of models of these names, those with mixtures of experts
};

std::span<const ModelFamily> model_families();

// The row of a model that was read; nullptr: its row was forgotten (families_test.cc finds it).
const ModelFamily* family_of(const ModelConfig& config);

// Whether `name` is one of the words of `names`.
bool is_one_of(std::string_view name, std::string_view names);

}  // namespace pagoda
