#pragma once
// PoolingModel: how a model's own files say that hidden states become a vector: which rows are pooled, what
// is multiplied behind it, whether the result is an embedding or the values of a classification head. Read
// from config.json and sentence-transformers' modules.json with its folders, or from GGUF metadata; the
// operator may say otherwise. Not the weights (vector_pooler.h), and not what a request asks for
// (request/work.h). Source: vLLM's pooling configuration and sentence-transformers' folders. Errors:
// corrupt_data and unimplemented name the file. Threads: plain data.
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
  bool normalize = true;  // an embedding, where a request does not say otherwise
  // sentence-transformers' Dense modules: folders, each with a matrix in model.safetensors.
  struct Dense {
    std::string folder;
    VectorActivation activation = VectorActivation::none;
  };
  std::vector<Dense> dense;
  // Scores: the function that makes values of products, and its name.
  VectorActivation score_activation = VectorActivation::softmax;
  std::vector<std::string> labels;
  // Instead of a head's matrix: the rows of two tokens, of which the score is the difference. "no", "yes".
  std::optional<std::pair<std::int32_t, std::int32_t>> answer_tokens;
};

// The flags --runner, --pooler-config and --hf-overrides, as vLLM reads them.
struct PoolingWishes {
  std::string_view runner = "auto";                     // auto, generate, pooling
  std::string_view pooler_config = {}, overrides = {};  // JSON objects; empty: nothing
};
// The id of an answer's token by its text; absent where there is no such token.
using TokenLookup = std::function<std::optional<std::int32_t>(std::string_view text)>;

// Absent: the model generates text. `encoder`: is_encoder() of it. Without a look-up the answers' tokens are
// left out: only the rank that pools needs them.
Result<std::optional<PoolingModel>> read_pooling_model(const ModelSource& source, bool encoder,
                                                       const PoolingWishes& wishes,
                                                       const TokenLookup& find_token = {});

}  // namespace pagoda
