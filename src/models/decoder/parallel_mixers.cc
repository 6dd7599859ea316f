// Two mixers with the same input whose results are added: attention beside linear attention (Falcon-H1).
// `projected` has a section for each; in each row of `mixed` their results are side by side.
#include <algorithm>

#include "kernels/rows.h"
#include "models/decoder/layer_part.h"

namespace pagoda {
namespace {

class ParallelMixers final : public Mixer {
 public:
  ParallelMixers(std::unique_ptr<Mixer> first, std::unique_ptr<Mixer> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  // The sections of both mixers, then scratch for the result of one of them.
  std::int64_t projected_width() const override {
    return first_->projected_width() + second_->projected_width() +
           std::max(first_->mixed_width(), second_->mixed_width());
  }
  std::int64_t inner_width() const override {
    return std::max(first_->mixed_width(), second_->mixed_width());
  }
  std::int64_t mixed_width() const override { return first_->mixed_width() + second_->mixed_width(); }
  Products input_products() override { return both(first_->input_products(), second_->input_products()); }
  Products output_products() override { return both(first_->output_products(), second_->output_products()); }

  void project_in(const Workspace& workspace, const DecoderBatch& batch, Rows rows,
                  const LinearInput& input) override {
    first_->project_in(workspace, batch, rows, input);
    second_->project_in(after_first(workspace, batch), batch, rows, input);
  }
  void mix(const Workspace& workspace, const DecoderBatch& batch) override {
    mix_one(*first_, workspace, batch, workspace, 0);
    mix_one(*second_, after_first(workspace, batch), batch, workspace, first_->mixed_width());
  }
  void list_ahead(const Workspace& workspace, const DecoderBatch& batch, ReadAhead& out) const override {
    first_->list_ahead(workspace, batch, out);
  }
  Status project_out(const Workspace& workspace, Rows rows, bool accumulate, const Buffer& y) override {
    PAGODA_RETURN_IF_ERROR(project_out_one(*first_, workspace, rows, 0, accumulate, y));
    return project_out_one(*second_, workspace, rows, first_->mixed_width(), true, y);
  }

 private:
  static Products both(Products first, const Products& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }
  Workspace after_first(const Workspace& workspace, const DecoderBatch& batch) const {
    Workspace own = workspace;
    own.projected = workspace.projected.at(0, std::ssize(batch.token_ids) * first_->projected_width());
    return own;
  }
  // Mixes into the columns of `mixed` from `column` on.
  void mix_one(Mixer& mixer, Workspace own, const DecoderBatch& batch, const Workspace& workspace,
               std::int64_t column) {
    const std::int64_t tokens = std::ssize(batch.token_ids), width = mixer.mixed_width();
    own.mixed = workspace.projected.at(0, tokens * (first_->projected_width() + second_->projected_width()));
    own.output_is_next = false;
    mixer.mix(own, batch);
    copy_rows(*workspace.context, {tokens, width}, own.mixed.with_stride(width),
              workspace.mixed.with_stride(mixed_width()).at(0, column));
  }

  // Reads those columns, through `inner`.
  Status project_out_one(Mixer& mixer, const Workspace& workspace, Rows rows, std::int64_t column,
                         bool accumulate, const Buffer& y) {
    const std::int64_t width = mixer.mixed_width();
    copy_rows(*workspace.context, {rows.count, width},
              workspace.mixed.with_stride(mixed_width()).at(rows.first, column),
              workspace.inner.with_stride(width));
    Workspace own = workspace;
    own.mixed = workspace.inner;
    own.adapters = workspace.adapters_from(rows.first);
    return mixer.project_out(own, {0, rows.count}, accumulate, y);
  }

  std::unique_ptr<Mixer> first_, second_;
};

}  // namespace

std::unique_ptr<Mixer> make_part(const ParallelMixersConfig& config, const LayerPlace& place) {
  return std::make_unique<ParallelMixers>(make_part(config.attention, place),
                                          make_part(config.linear, place));
}

}  // namespace pagoda
