#pragma once
// Family: all that is known of one family of models, in one file of families/: which files it answers to, how
// their hyperparameters read, what their tensors are called, and its row of docs/models.md. The build lists
// the folder, so that a new file there is a new family (families/NAME.cc defines PAGODA_FAMILY(NAME)). Not
// how a decoder computes: that is decoder.cc, of any DecoderConfig. Owner: nobody, constants. Threads: any.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/hyperparameters.h"
#include "loader/model_source.h"
#include "models/model_info.h"
#include "models/weight_names.h"

namespace pagoda {

using ReadFamily = void (*)(Hyperparameters& h, ModelInfo& model);

// A config.json.
struct FamilyConfig {
  std::string_view class_name,
      base_name;                // with the language head, and of the same weights saved without one
  std::string_view model_type;  // transformers'
  ReadFamily read;
  std::string_view architecture = {};  // its name in `pagoda inspect`, if it is not the family's
};

// A model that also sees or hears and has the family's inside.
struct FamilyWrapper {
  std::string_view class_name;  // "Gemma3ForConditionalGeneration", also named "Gemma3Model"
  std::string_view model_type;
  std::string_view text_type;  // model_type of the language model where config.json does not say it
};

// A GGUF file, by its general.architecture.
struct FamilyGguf {
  std::string_view name;
  ReadFamily read;
};

// The row of docs/models.md, and what `pagoda inspect` says.
struct FamilyRow {
  std::string_view name;     // with sizes, as people know them
  std::string_view differs;  // from Llama by this; of encoders: what it is
  std::string_view checked;  // against what
  // A size, and as much of its config.json as says what is kept of tokens.
  std::string_view size = {}, config = {};
  bool vectors = false;        // it makes vectors and no text
  std::string_view note = {};  // behind its names of config.json
};

struct Family {
  std::string_view architecture;  // ours; mostly llama.cpp's
  std::vector<FamilyConfig> configs = {};
  std::vector<FamilyWrapper> wrappers = {};
  std::vector<FamilyGguf> ggufs = {};
  // Carried out behind either format's reader, on what differs from Llama in all models of the family.
  void (*shape)(DecoderConfig& decoder) = nullptr;
  // Readers may put others into ModelInfo, where models of a family differ.
  WeightNames (*names)(ModelFormat format);
  bool only_experts = false;  // GGUF files of these names that have mixtures of experts
  FamilyRow row;
};

#define PAGODA_FAMILY(name)          \
  extern const Family family_##name; \
  const Family family_##name

// In the order of the files' names.
std::span<const Family* const> families();

// Null: no family reads such files.
const Family* find_gguf_family(std::string_view name, bool experts = false);
// The family with this `architecture`, for tests; CHECKs that there is one.
const Family& family_named(std::string_view architecture);

// "architecture 'X' is not supported; the nearest that is: Y", of those that config.json or GGUF may name.
Status unsupported_config(std::string_view name);
Status unsupported_gguf(std::string_view name);

}  // namespace pagoda
