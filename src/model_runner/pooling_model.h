#pragma once
// PoolingModel: how hidden states become a vector, according to the model's own files: which rows are pooled,
// which matrices follow, and whether the result is an embedding or the output of a classification head. Read
// from config.json and sentence-transformers' modules.json with its folders, or from GGUF metadata; flags may
// override it. The weights are vector_pooler.h's, the options of a request request/work.h's.
// Source: vLLM's pooling configuration and sentence-transformers' folders. Errors: corrupt_data and
// unimplemented name the file. Threads: plain data.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"
#include "request/work.h"

namespace pagoda {

enum class VectorActivation : std::uint8_t { none, tanh, relu, gelu, silu, sigmoid, softmax };

struct PoolingModel {
  WorkKind kind = WorkKind::embed;
  PoolingType type = PoolingType::last;
  bool normalize = true;  // embeddings, unless a request says otherwise
  // sentence-transformers' Dense modules: folders with a matrix in model.safetensors each.
  struct Dense {
    std::string folder;
    VectorActivation activation = VectorActivation::none;
  };
  std::vector<Dense> dense;
  // For scores: the activation on the head's output, and the names of its values.
  VectorActivation score_activation = VectorActivation::softmax;
  std::vector<std::string> labels;
  // Instead of a head's matrix: the rows of the tokens "no" and "yes"; the score is the difference of their
  // products.
  std::optional<std::pair<std::int32_t, std::int32_t>> answer_tokens;
};

// The values of --runner, --pooler-config and --hf-overrides, with vLLM's meaning.
struct PoolingWishes {
  std::string_view runner = "auto";                     // auto, generate, pooling
  std::string_view pooler_config = {}, overrides = {};  // JSON objects; empty: not given
};
// Returns the id of an answer token by its text; nullopt if there is no such token.
using TokenLookup = std::function<std::optional<std::int32_t>(std::string_view text)>;

// Returns nullopt if the model generates text. `encoder`: its is_encoder(). Without `find_token`, the answer
// tokens are left out; only the rank that pools needs them.
Result<std::optional<PoolingModel>> read_pooling_model(const ModelSource& source, bool encoder,
                                                       const PoolingWishes& wishes,
                                                       const TokenLookup& find_token = {});

}  // namespace pagoda
