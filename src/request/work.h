#pragma once
// Work: the kind of result that a request asks for: new tokens, or one vector made from its prompt. A pooling
// prompt is scheduled like any other (same budgets, order, cancellation); the model runner makes the vector
// in the step that computes the prompt's last token, which ends the request. Token selection is in
// sampling_params.h. A server's model either generates or pools; the engine rejects the other kind.
// Invariant: `pooling` is used only if kind is not generate. Source: vLLM's pooling parameters (names and
// order of steps). Plain data: any thread.
#include <cstdint>

namespace pagoda {

enum class WorkKind : std::uint8_t {
  generate,  // tokens, chosen by SamplingParams
  embed,     // a vector that represents the prompt
  score,     // the values of the model's classification head
};

enum class PoolingType : std::uint8_t {
  last,   // hidden state of the last token
  mean,   // mean of all tokens, summed in position order; such a prompt does not use the prefix cache
  first,  // hidden state of the first token ([CLS])
};

// Applied in this order, in float32: pool, keep the first `dimensions`, normalize.
struct PoolingSpec {
  PoolingType type = PoolingType::last;
  std::int32_t dimensions = 0;  // 0: all
  bool normalize = true;        // embed: to unit length (L2); score: apply the head's activation

  bool operator==(const PoolingSpec&) const = default;
};

struct Work {
  WorkKind kind = WorkKind::generate;
  PoolingSpec pooling;
  // Every token attends to all others (encoders): one step computes the whole prompt, and the prefix cache is
  // not used.
  bool whole_prompt = false;
  // Start of the second of two texts, for models that distinguish them (token types); 0: there is only one
  // text.
  std::int32_t second_text = 0;

  bool pools() const { return kind != WorkKind::generate; }
};

}  // namespace pagoda
