#pragma once
// Work: what a request wants of the model: new tokens, or one vector made from its prompt. A vector's prompt
// is scheduled like any other (same budgets, order, cancellation); the model runner makes the vector in the
// step that computes the prompt's last token, and the request ends with it. Not how tokens are chosen
// (sampling_params.h). A server's model either generates or pools; the engine refuses the other kind.
// Invariants: `pooling` counts only where kind is not generate.
// Source: vLLM's pooling parameters (names and order of steps). Plain data: any thread.
#include <cstdint>

namespace pagoda {

enum class WorkKind : std::uint8_t {
  generate,  // tokens, as SamplingParams say
  embed,     // a vector that stands for the prompt
  score,     // the values of the model's classification head
};

enum class PoolingType : std::uint8_t {
  last,   // the hidden state of the last token
  mean,   // mean of all tokens, added in order of position; such a prompt takes nothing from the prefix cache
  first,  // vector of the first token ([CLS])
};

// In this order, in float32: pool, keep the first `dimensions`, normalize.
struct PoolingSpec {
  PoolingType type = PoolingType::last;
  std::int32_t dimensions = 0;  // 0: all
  bool normalize = true;        // embed: to length 1 (L2); score: the head's activation

  bool operator==(const PoolingSpec&) const = default;
};

struct Work {
  WorkKind kind = WorkKind::generate;
  PoolingSpec pooling;
  // Every token attends to all others, so one step computes the whole prompt, and none of it comes from the
  // prefix cache (encoders).
  bool whole_prompt = false;
  // Start of the second of two texts, for models that tell them apart (token types); 0: there is one text.
  std::int32_t second_text = 0;

  bool pools() const { return kind != WorkKind::generate; }
};

}  // namespace pagoda
