#pragma once
// Family: everything specific to one family of models, in one file of families/: the files that it handles,
// how their hyperparameters are read, its tensor names, and its row of docs/models.md. The build lists the
// folder, so a new file there is a new family. families/NAME.cc is namespace pagoda::NAME, so its functions
// need no unique names, and defines `family` in it. The computation is decoder.cc's, for any DecoderConfig.
// Owner: constants. Threads: any.
#include <optional>
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
// rest: read_common() or read_gguf_common() runs first and `more` reads the rest. all: `more` reads
// everything.
enum class Reads { rest, all };

// A config.json, read by read_common() and then `more`.
struct FamilyConfig {
  // With the language head: a model of "XForCausalLM" may also be named "XModel", "XTextModel", ...
  std::string_view class_name;
  std::string_view model_type;  // as in transformers
  // JSON with the family's defaults for absent fields; fields not listed have Llama's. Sizes are read under
  // the names used here.
  std::string_view absent = "{}";
  ReadFamily more = nullptr;
  Reads reads = Reads::rest;
  std::string_view architecture = {};  // its name in `pagoda inspect` if not the family's

  std::string_view stem() const;  // "X"
};

// A multimodal model that contains the family's language model.
struct FamilyWrapper {
  std::string_view class_name;  // "Gemma3ForConditionalGeneration", also named "Gemma3Model"
  std::string_view model_type;
  std::string_view text_type;  // the language model's model_type if config.json lacks it
};

// How a family's experts are chosen if a GGUF file does not say.
struct GgufExperts {
  bool known = false;
  RouterScore score = RouterScore::softmax;
  bool renormalize = true;
  bool shared_gate = false;
  bool in_layers = true;  // in place of dense feed-forwards; false: the reader places them
};
// Traits that GGUF metadata omit because all models of a family share them.
struct GgufTraits {
  std::string_view activation = "silu";
  bool layer_norm = false;
  bool may_have_rms_norms = false;  // some models have RMS norms instead
  bool rotates = true;
  bool interleaved_rows = false;  // q/k rows stored for adjacent-pair rotation
  bool parallel = false;          // the feed-forward reads attention's input
  bool encoder = false;           // every token attends to all others
  bool may_be_parallel = false;   // use_parallel_residual decides
  // The family's context length, used if the file gives the hidden size instead: converters write that if
  // config.json has no context length.
  std::int32_t context_instead_of_width = 0;
  bool latent = false;  // latent attention: key and value heads may differ in size
  // The file has the number of pairs per head for each of three positions, which are equal in text.
  bool rope_sections = false;
  GgufExperts experts = {};
};

// A GGUF file, by its general.architecture; read by read_gguf_common() and then `more`.
struct FamilyGguf {
  std::string_view name;
  GgufTraits traits = {};
  ReadFamily more = nullptr;
  Reads reads = Reads::rest;
};

// The family's row of docs/models.md, also shown by `pagoda inspect`.
struct FamilyRow {
  std::string_view name;                      // with sizes, as commonly known
  std::string_view differs;                   // difference from Llama; for encoders: a description
  std::string_view checked = "transformers";  // reference implementation
  // A model size, and the fields of its config.json that determine what is kept per token. Empty: only the
  // first model_type.
  std::string_view size = {}, config = {};
  bool vectors = false;        // makes vectors, not text
  std::string_view note = {};  // appended to its config.json names
};

struct Family {
  std::string_view architecture = {};  // Pagoda's name, if not the first GGUF name
  std::vector<FamilyConfig> configs = {};
  std::vector<FamilyWrapper> wrappers = {};
  std::vector<FamilyGguf> ggufs = {};
  // Runs after either format's reader: applies what differs from Llama in all models of the family.
  void (*shape)(DecoderConfig& decoder) = nullptr;
  // Change Llama's folder names and the common GGUF names into the family's. If models of a family differ,
  // readers may set others in ModelInfo.
  NameWeights names = nullptr, gguf_names = nullptr;
  // Expert tensors in folders; `names` may change the names that follow from this.
  std::optional<ExpertPlaces> folder_experts = {};
  bool only_experts = false;  // only GGUF files with mixtures of experts
  FamilyRow row;

  std::string_view called() const { return architecture.empty() ? ggufs.front().name : architecture; }
  std::string config_of_row() const;  // empty: the row has no size
};

// All families, in order of file name.
std::span<const Family* const> families();

// Returns null if no family reads such files.
const Family* find_gguf_family(std::string_view name, bool experts = false);
// Returns the family with this `architecture`, for tests. CHECKs that it exists.
const Family& family_named(std::string_view architecture);

// "architecture 'X' is not supported; the nearest that is: Y", among the names of config.json or GGUF.
Status unsupported_config(std::string_view name);
Status unsupported_gguf(std::string_view name);

}  // namespace pagoda
