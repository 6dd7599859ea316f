#include "model_runner/step_views.h"

#include <utility>

namespace pagoda {

void StepViews::show_lanes(const StepLayout& step) {
  const auto lanes = static_cast<std::size_t>(step.num_lanes());
  lanes_.resize(lanes);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    lanes_[lane].clear();
    for (std::int32_t i = 0; i < step.num_sequences(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      lanes_[lane].push_back({.query_start = step.first_rows()[at],
                              .num_queries = step.row_counts()[at],
                              .context_len = step.context_len(i),
                              .block_table = step.table(i, static_cast<std::int32_t>(lane)).data()});
    }
  }
  layers_.clear();
}

void StepViews::show_tables(const StepLayout& step, const KvGroupPlan& plan,
                            std::span<const LayerInPage> pages) {
  show_lanes(step);
  if (plan.plain()) return;
  for (std::size_t layer = 0; layer < pages.size(); ++layer) {
    const KvPlace& place = plan.layers[layer];
    const auto lane = static_cast<std::size_t>(step.first_lane(place.group) + place.page);
    layers_.push_back(
        {.layout = pages[layer].layout, .layer = pages[layer].layer, .sequences = lanes_[lane]});
  }
}

void StepViews::show_whole_prompts(const StepLayout& step, const KvLayout& layout, std::int32_t num_layers) {
  show_lanes(step);
  layers_.assign(static_cast<std::size_t>(num_layers),
                 {.layout = layout, .layer = 0, .sequences = lanes_.front()});
}

void StepViews::show_states(const StepLayout& step, const KvGroupPlan& plan,
                            const std::function<std::byte*(std::int32_t)>& page_of) {
  const std::size_t num_pieces = plan.pieces.size();
  const auto sequences = static_cast<std::size_t>(step.num_sequences());
  const auto copies = static_cast<std::size_t>(step.num_state_copies());
  const std::int32_t lane = step.first_lane(plan.state_group());
  pieces_.clear();
  const auto put_piece = [&](std::int32_t page, const StatePlace& place) {
    pieces_.push_back(reinterpret_cast<float*>(page_of(page) + place.offset));
  };
  for (std::int32_t i = 0; i < step.num_sequences(); ++i)
    for (const StatePlace& place : plan.pieces) put_piece(step.table(i, lane + place.page).front(), place);
  for (std::int32_t i = 0; i < step.num_state_copies(); ++i)
    for (const StatePlace& place : plan.pieces)
      put_piece(step.state_copy(i).pages[static_cast<std::size_t>(place.page)], place);
  // The vector of pieces is complete from here on, so pointers into it stay valid.
  stores_.clear();
  for (std::size_t i = 0; i < copies; ++i)
    stores_.push_back({.num_rows = step.state_copy(static_cast<std::int32_t>(i)).num_rows,
                       .pieces = pieces_.data() + (sequences + i) * num_pieces});
  sequences_.clear();
  std::size_t store = 0;
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::size_t first = store;
    while (store < copies && std::cmp_equal(step.state_copy(static_cast<std::int32_t>(store)).sequence, i))
      ++store;
    const std::int32_t num_rows = step.row_counts()[i];
    sequences_.push_back({.first_row = step.first_rows()[i],
                          .num_rows = num_rows,
                          .num_drafts = step.draft_counts()[i],
                          .fresh = step.context_len(static_cast<std::int32_t>(i)) == num_rows,
                          .pieces = pieces_.data() + i * num_pieces,
                          .stores = std::span(stores_).subspan(first, store - first)});
  }
  layer_states_.clear();
  for (const std::int32_t first : plan.first_piece)
    layer_states_.push_back(
        {.sequences = sequences_, .first_piece = first, .num_pieces = static_cast<std::int32_t>(num_pieces)});
}

DecoderBatch StepViews::batch(const StepLayout& step, const KvLayout& layout, std::byte* cache) const {
  return {.token_ids = step.token_ids(),
          .positions = step.positions(),
          .sequences = lanes_.front(),
          .output_rows = step.output_row_ids(),
          .layout = layout,
          .cache = cache,
          .layers = layers_,
          .rotations = step.rotations(),
          .states = layer_states_,
          .token_types = step.token_types()};
}

}  // namespace pagoda
