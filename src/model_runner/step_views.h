#pragma once
// StepViews: a step's layout as the views of a DecoderBatch: the sequences with their tables in each lane,
// each layer's place in the cache, and each layer's states. The tables stay in the layout's image. Vectors
// keep their capacity between steps.
// Threads: the runner's one caller.
#include <functional>
#include <vector>

#include "model_runner/kv_group_plan.h"
#include "model_runner/step_layout.h"
#include "models/decoder/layer_part.h"

namespace pagoda {

class StepViews {
 public:
  // For a plan that keeps K, V or states; `pages` are its layers' places (layers_in_pages()).
  void show_tables(const StepLayout& step, const KvGroupPlan& plan, std::span<const LayerInPage> pages);
  // For a plan without groups: all layers use the same blocks, one after the other.
  void show_whole_prompts(const StepLayout& step, const KvLayout& layout, std::int32_t num_layers);
  // page_of: returns the address of a page, independent of slots.
  void show_states(const StepLayout& step, const KvGroupPlan& plan,
                   const std::function<std::byte*(std::int32_t)>& page_of);

  // Returns the view of `step` for a decoder whose cache of `layout` starts at `cache`.
  DecoderBatch batch(const StepLayout& step, const KvLayout& layout, std::byte* cache) const;
  std::span<const std::vector<AttentionSequence>> lanes() const { return lanes_; }
  std::span<const LayerStates> states() const { return layer_states_; }

 private:
  void show_lanes(const StepLayout& step);

  std::vector<std::vector<AttentionSequence>> lanes_;
  std::vector<LayerKv> layers_;  // empty: all layers are alike
  // Pieces of the states of sequences and of state copies: for each state, the pieces of all layers in order.
  std::vector<float*> pieces_;
  std::vector<StateStore> stores_;
  std::vector<StateSequence> sequences_;
  std::vector<LayerStates> layer_states_;
};

}  // namespace pagoda
