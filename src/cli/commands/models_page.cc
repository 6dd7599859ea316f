#include "cli/commands/models_page.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "cli/commands/model_facts.h"
#include "kernels/linear.h"
#include "models/family.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

constexpr const char* kIntroduction =
    R"(<!-- made by `pagoda man --markdown models`; change the row in the family's file in src/models/families/ instead -->
# Models

A model is a GGUF file or a Hugging Face folder (config.json, safetensors). An option that Pagoda does not support is
refused by name; nothing is guessed. `pagoda inspect MODEL` prints the family, whether the file can run and has all its
tensors, the memory it needs and, as an estimate, its speed on this machine. Of models with vision or audio the language
model runs: those listed below, and any whose config.json contains one of these families. [model-notes.md](model-notes.md)
describes how to get a model, and has notes on families.

Columns:

* **Checked against.** "transformers" is a small random model whose log-probabilities equal those of transformers to 1e-3 in
  float32. Older ones also have a reference in numpy (`tests/fixtures/make_tiny_models.py`). The models of
  `tests/fixtures/make_families.py` derive their weights from the tensors' names; they are compared as safetensors and, where
  a GGUF name is given, as a GGUF file with a header written by the gguf package and the converter's transformations.
* **Memory** is that of the K/V of 1,024 tokens in bfloat16 for the named size (of latent attention: of its rows). int8 takes a
  little more than half, float32 twice as much. Windows and states are the most that a sequence takes, however long; states
  are float32, with padding to their pages.

Weights: F32, F16, BF16, [every block type of GGUF](#types-of-gguf), and [quantised folders](quantized-folders.md).

| family | config.json | GGUF | differs from Llama by | checked against | memory |
|---|---|---|---|---|---|
)";

constexpr const char* kVectors = R"(
## Models that make vectors

These make vectors by themselves, decoders with `--runner pooling` ([vectors.md](vectors.md)). Each is within 1e-4 of
transformers in float32.

| family | config.json | GGUF | what it is | checked against |
|---|---|---|---|---|
)";

// Every decoder above can also produce vectors.
constexpr const char* kAllDecoders =
    "| Qwen3-Embedding, Qwen3-Reranker, and all decoders above | …ForCausalLM, …ForSequenceClassification; "
    "GGUF: "
    "`pooling_type`, `cls.output` | – | the last token's state, a head, or two answers' rows | transformers: "
    "Qwen 3 "
    "|\n";

constexpr const char* kTypes = R"(
## Types of GGUF

Every type is decoded to the bits of llama.cpp's and the gguf package's dequantiser. "Kept in" is the number of bits that
a weight takes in memory for 8-bit products, scales included (`--dtype auto`), with AVX-512; "panel : file" is its ratio to
the file's. "AVX2" is what it takes with AVX2, and in portable code, where that is another number.
`bfloat16` takes 16 bits, `float32` 32. NVFP4 weights with a factor in a separate tensor (`.scale`) are kept in 4.5.

| type | bits a weight in the file | kept in | panel : file | AVX2 |
|---|---|---|---|---|
)";

// The block types in ascending order of bits.
std::string type_rows() {
  std::vector<std::pair<double, DType>> types;
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    const DTypeInfo& info = kDTypes[i];
    if (info.gguf >= 0 && info.block_elements > 1)
      types.emplace_back(8.0 * info.block_bytes / info.block_elements, static_cast<DType>(i));
  }
  std::ranges::sort(types);
  std::string out;
  for (const auto& [bits, type] : types) {
    const auto kept = [&](CpuLevel level) {
      constexpr std::int64_t kWeights = 1 << 20;
      return 8.0 * static_cast<double>(estimated_packed_bytes(type, kWeights, level)) / kWeights;
    };
    const double most = kept(CpuLevel::avx512), other = kept(CpuLevel::avx2);
    out += concat("| ", dtype_info(type).name, " | ", fixed(bits, 2), " | ", fixed(most, 2), " | ",
                  fixed(most / bits, 2), " | ", other != most ? fixed(other, 2) : "", " |\n");
  }
  return out;
}

std::string mebibytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes) / (1 << 20);
  return concat(fixed(value, value < 10 ? 1 : 0), " MiB");
}

std::string memory(const Family& family) {
  if (family.row.size.empty()) return "–";
  const auto config = read_config_json(family.config_of_row(), std::nullopt);
  CHECK(config);  // ensured by families_test.cc
  std::int64_t growing = 0, windows = 0, states = 0;
  for (const DescribedKvGroup& group : described_kv_groups(*config)) {
    if (group.state)
      states += group.full_context.bfloat16;
    else if (group.window > 0)
      windows += group.full_context.bfloat16;
    else
      growing += group.per_1024_tokens.bfloat16;
  }
  std::string out = concat(family.row.size, ": ", mebibytes(growing));
  if (states > 0) out += concat(", states ", mebibytes(states));
  if (windows > 0) out += concat(", windows ", mebibytes(windows));
  return out;
}

void add(std::string& list, std::string_view name) { list += concat(list.empty() ? "" : ", ", name); }

std::string config_names(const Family& family) {
  std::string out;
  std::set<std::string_view> listed;  // a class may occur with several model_types
  for (const FamilyConfig& each : family.configs) {
    if (!listed.insert(each.class_name).second) continue;
    if (family.row.vectors) add(out, concat(each.stem(), "Model"));
    add(out, each.class_name);
  }
  if (const std::size_t count = family.wrappers.size(); count > 0)
    add(out, concat(count, count == 1 ? " [wrapper](#wrappers)" : " [wrappers](#wrappers)"));
  if (family.row.vectors && !family.configs.empty()) add(out, "…ForSequenceClassification");
  if (!family.row.note.empty()) add(out, family.row.note);
  return out;
}

std::string gguf_names(const Family& family) {
  std::string out;
  for (const FamilyGguf& each : family.ggufs) add(out, concat("`", each.name, "`"));
  return out.empty() ? "–" : out;
}

// By name, after Llama, with which the other families are compared.
std::vector<const Family*> families_by_name() {
  std::vector<const Family*> all(families().begin(), families().end());
  std::ranges::sort(all, {}, [](const Family* family) {
    return std::pair(family->called() != "llama" || family->ggufs.empty(), family->row.name);
  });
  return all;
}

}  // namespace

std::string models_page() {
  std::string decoders = kIntroduction, vectors = kVectors;
  for (const Family* family : families_by_name()) {
    const FamilyRow& row = family->row;
    std::string& table = row.vectors ? vectors : decoders;
    table += concat("| ", row.name, " | ", config_names(*family), " | ", gguf_names(*family), " | ",
                    row.differs, " | ", row.checked, " |");
    table += row.vectors ? "\n" : concat(" ", memory(*family), " |\n");
  }
  std::string wrappers =
      "\n## Wrappers\n\nModels with vision or audio, of which the language model runs:\n\n";
  for (const Family* family : families_by_name()) {
    std::string names;
    for (const FamilyWrapper& each : family->wrappers) add(names, each.class_name);
    if (!names.empty()) wrappers += concat("* ", family->row.name, ": ", names, "\n");
  }
  return concat(decoders, vectors, kAllDecoders, wrappers, kTypes, type_rows());
}

}  // namespace pagoda
