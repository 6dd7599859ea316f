#include "loader/gguf_kind.h"

#include "base/strings.h"
#include "loader/printable.h"

namespace pagoda {

Status check_is_model(const GgufFile& file) {
  if (const std::string* type = file.string("general.type"); type != nullptr && *type == "adapter") {
    const std::string *kind = file.string("adapter.type"), *of = file.string("general.base_model.0.name");
    return unimplemented(concat("the file is an adapter (", kind != nullptr ? printable(*kind) : "LoRA", ")",
                                of != nullptr ? concat(" of ", printable(*of)) : "",
                                ", not a model; adapters are not supported: merge it into its model"));
  }
  if (const std::string* architecture = file.string("general.architecture");
      architecture != nullptr && *architecture == "clip")
    return unimplemented(
        "the file is the vision or audio part of a model (mmproj), not the model: give the model's own .gguf "
        "file");
  return ok_status();
}

}  // namespace pagoda
