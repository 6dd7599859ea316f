#include "cli/commands/models_page.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/strings.h"
#include "cli/commands/model_facts.h"
#include "models/family.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

constexpr const char* kIntroduction =
    R"(<!-- made by `pagoda man --markdown models`; change the row in the family's file in src/models/families/ instead -->
# Models

A model is a GGUF file or a Hugging Face folder (config.json, safetensors). What a file asks for and Pagoda does not
understand is refused by name; nothing is guessed. `pagoda inspect MODEL` says whether a file can be run, of which
family it is, whether it has all tensors, what it takes of memory and, as an estimate, how fast it can be on this machine.
How to get one, notes on families, adding a family: [model-notes.md](model-notes.md). Of models that also see or hear the
language model is run, of those listed and of any other whose config.json has one of these families inside.

"transformers" means a small random model whose log-probabilities transformers computed, equal to 1e-3 in float32. A
second reference, in numpy (`tests/fixtures/make_tiny_models.py`), stands behind the older ones of the models that are
committed. Those of `tests/fixtures/make_families.py` have no weights: these follow from the tensors' names. They are
compared as safetensors and, where a GGUF name is given, through a file whose header the gguf package wrote, after what
converters do to the tensors.

Memory is that of keys and values (of latent attention: of its rows) of 1024 tokens in bfloat16, of the size named (int8
takes a little more than half, float32 twice as much), and what windows at most and states always take of each sequence,
however long; states are float32, with what fills their pages. Weights: every type of GGUF that
llama.cpp writes by default, F32, F16, BF16, and [quantised folders](quantized-folders.md); `pagoda inspect` names a type that is not supported.

| family | config.json | GGUF | differs from Llama by | checked against | memory |
|---|---|---|---|---|---|
)";

constexpr const char* kVectors = R"(
## Models that make vectors

By themselves, or with `--runner pooling` ([vectors.md](vectors.md)); each within 1e-4 of transformers in float32.

| family | config.json | GGUF | what it is | checked against |
|---|---|---|---|---|
)";

// Every decoder above may make vectors, too.
constexpr const char* kAllDecoders =
    "| Qwen3-Embedding, Qwen3-Reranker, and all decoders above | …ForCausalLM, …ForSequenceClassification; "
    "GGUF: "
    "`pooling_type`, `cls.output` | – | the last token's state, a head, or two answers' rows | transformers: "
    "Qwen 3 "
    "|\n";

std::string mebibytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes) / (1 << 20);
  return concat(fixed(value, value < 10 ? 1 : 0), " MiB");
}

std::string memory(const FamilyRow& family) {
  if (family.config.empty()) return "–";
  const auto config = read_config_json(family.config, std::nullopt);
  CHECK(config);  // families_test.cc
  const auto groups = described_kv_groups(*config);
  CHECK(groups);
  std::int64_t growing = 0, windows = 0, states = 0;
  for (const DescribedKvGroup& group : *groups) {
    if (group.state)
      states += group.full_context.bfloat16;
    else if (group.window > 0)
      windows += group.full_context.bfloat16;
    else
      growing += group.per_1024_tokens.bfloat16;
  }
  std::string out = concat(family.size, ": ", mebibytes(growing));
  if (states > 0) out += concat(", states ", mebibytes(states));
  if (windows > 0) out += concat(", windows ", mebibytes(windows));
  return out;
}

void add(std::string& list, std::string_view name) { list += concat(list.empty() ? "" : ", ", name); }

std::string config_names(const Family& family) {
  std::string out;
  std::set<std::string_view> listed;  // one class may be of several model_types
  for (const FamilyConfig& each : family.configs) {
    if (!listed.insert(each.class_name).second) continue;
    if (family.row.vectors) add(out, each.base_name);
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

// By name; what the others differ from comes first.
std::vector<const Family*> families_by_name() {
  std::vector<const Family*> all(families().begin(), families().end());
  std::ranges::sort(all, {}, [](const Family* family) {
    return std::pair(family->architecture != "llama" || family->ggufs.empty(), family->row.name);
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
    table += row.vectors ? "\n" : concat(" ", memory(row), " |\n");
  }
  std::string wrappers =
      "\n## Wrappers\n\nModels that also see or hear, of which the language model is run:\n\n";
  for (const Family* family : families_by_name()) {
    std::string names;
    for (const FamilyWrapper& each : family->wrappers) add(names, each.class_name);
    if (!names.empty()) wrappers += concat("* ", family->row.name, ": ", names, "\n");
  }
  return concat(decoders, vectors, kAllDecoders, wrappers);
}

}  // namespace pagoda
