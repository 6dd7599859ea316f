#pragma once
// Family: all that is known of one family of models, in one file of families/: which files it answers to, how
// their hyperparameters read, what their tensors are called, and its row of docs/models.md. The build lists
// the folder, so that a new file there is a new family: families/NAME.cc is a namespace pagoda::NAME, so that
// its functions need no names of their own, and defines `family` in it. Not how a decoder computes: that is
// decoder.cc, of any DecoderConfig. Owner: nobody, constants. Threads: any.
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
// Whether read_common() or read_gguf_common() goes first, and `more` reads the rest, or reads all.
enum class Reads { rest, all };

// A config.json, read by read_common() and then `more`.
struct FamilyConfig {
  // With the language head: a model of "XForCausalLM" may also be named "XModel", "XTextModel", ...
  std::string_view class_name;
  std::string_view model_type;  // transformers'
  // Its values of fields that a file leaves out, as config.json; of fields that are not here, Llama's. Sizes
  // are read under the names that they have here.
  std::string_view absent = "{}";
  ReadFamily more = nullptr;
  Reads reads = Reads::rest;
  std::string_view architecture = {};  // its name in `pagoda inspect`, if it is not the family's

  std::string_view stem() const;  // "X"
};

// A model that also sees or hears and has the family's inside.
struct FamilyWrapper {
  std::string_view class_name;  // "Gemma3ForConditionalGeneration", also named "Gemma3Model"
  std::string_view model_type;
  std::string_view text_type;  // model_type of the language model where config.json does not say it
};

// How a family's experts are chosen where a GGUF file does not say so.
struct GgufExperts {
  bool known = false;
  RouterScore score = RouterScore::softmax;
  bool renormalize = true;
  bool shared_gate = false;
  bool in_layers = true;  // instead of their dense feed-forwards; else the reader places them
};
// Traits that GGUF metadata leave out because all models of a family share them.
struct GgufTraits {
  std::string_view activation = "silu";
  bool layer_norm = false;
  bool may_have_rms_norms = false;  // instead
  bool rotates = true;
  bool interleaved_rows = false;  // q/k rows stored for adjacent-pair rotation
  bool parallel = false;          // the feed-forward sees what attention sees
  bool encoder = false;           // every token attends to all others
  bool may_be_parallel = false;   // as use_parallel_residual says
  // The family's default width, for converters that write the width because config.json has no such field.
  std::int32_t context_instead_of_width = 0;
  bool latent = false;  // latent attention: heads of keys and values may differ in size
  // The file says how many pairs of a head turn by each of three positions, which text has alike.
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

// The row of docs/models.md, and what `pagoda inspect` says.
struct FamilyRow {
  std::string_view name;                      // with sizes, as people know them
  std::string_view differs;                   // from Llama by this; of encoders: what it is
  std::string_view checked = "transformers";  // against what
  // A size, and as much of its config.json as says what is kept of tokens; empty: the first model_type alone.
  std::string_view size = {}, config = {};
  bool vectors = false;        // it makes vectors and no text
  std::string_view note = {};  // behind its names of config.json
};

struct Family {
  std::string_view architecture = {};  // ours, where it is not the first GGUF file's
  std::vector<FamilyConfig> configs = {};
  std::vector<FamilyWrapper> wrappers = {};
  std::vector<FamilyGguf> ggufs = {};
  // Carried out behind either format's reader, on what differs from Llama in all models of the family.
  void (*shape)(DecoderConfig& decoder) = nullptr;
  // They change what its folders call otherwise than Llama's, and its GGUF files otherwise than most. Readers
  // may put others into ModelInfo, where models of a family differ.
  NameWeights names = nullptr, gguf_names = nullptr;
  // Places in folders; `names` may change what follows from them.
  std::optional<ExpertPlaces> folder_experts = {};
  bool only_experts = false;  // GGUF files of these names that have mixtures of experts
  FamilyRow row;

  std::string_view called() const { return architecture.empty() ? ggufs.front().name : architecture; }
  std::string config_of_row() const;  // empty: the row has no size
};

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
