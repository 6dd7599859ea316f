#include "kernels/device/device_ops.h"

#include <algorithm>
#include <cstring>

#include "kernels/device/stored_rows.h"

namespace pagoda {
namespace {

using device::DeviceArray;
using device::Element;

constexpr std::int64_t kStage = std::int64_t{4} << 20;  // bytes that are sent at once

}  // namespace

Result<std::byte*> DeviceOps::allocate(std::int64_t bytes, std::string_view name) {
  if (bytes == 0) return nullptr;
  auto array = DeviceArray<std::byte>::create(device_, bytes, name);
  if (!array) return array.error();
  bytes_ += bytes;
  return arrays_.emplace_back(*std::move(array)).data();
}

Status DeviceOps::send(std::byte* to, std::span<const std::byte> values) {
  if (stage_.count() == 0) {
    auto stage = device::PinnedArray<std::byte>::create(device_, kStage);
    if (!stage) return stage.error();
    stage_ = *std::move(stage);
  }
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), static_cast<std::size_t>(kStage));
    std::memcpy(stage_.bytes(), values.data(), count);
    PAGODA_RETURN_IF_ERROR(device_.copy_in(stream_, to, stage_.bytes(), count));
    PAGODA_RETURN_IF_ERROR(device_.synchronize(stream_));
    values = values.subspan(count);
    to += count;
  }
  return ok_status();
}

Result<std::byte*> DeviceOps::place(std::span<const std::byte> values, std::string_view name) {
  auto there = allocate(std::ssize(values), name);
  if (there) PAGODA_RETURN_IF_ERROR(send(*there, values));
  return there;
}

Element DeviceOps::element_for(std::span<const TensorView> views, bool exact) const {
  if (exact) return Element::f32;
  return quantized_element(views).value_or(options_.weights);
}

Result<const std::byte*> DeviceOps::place_rows(std::span<const TensorView> views, Element element) {
  std::int64_t rows = 0;
  for (const TensorView& view : views) rows += view.rows();
  const std::int64_t row_bytes = device::KernelLaunches::row_bytes(element, views.front().columns());
  auto there = allocate(rows * row_bytes, "weights");
  if (!there) return there.error();
  std::byte* to = *there;
  std::vector<std::byte> bytes;
  const auto flush = [&]() -> Status {
    PAGODA_RETURN_IF_ERROR(send(to, bytes));
    to += bytes.size();
    bytes.clear();
    return ok_status();
  };
  for (const TensorView& view : views)
    for (std::int64_t row = 0; row < view.rows(); ++row) {
      append_row(element, view, row, bytes);
      if (std::ssize(bytes) >= kStage) PAGODA_RETURN_IF_ERROR(flush());
    }
  PAGODA_RETURN_IF_ERROR(flush());
  return static_cast<const std::byte*>(*there);
}

// Kernels store pairs of columns: parts of odd heights are not cut, but widened together.
Result<std::vector<DevicePart>> DeviceOps::place_matrix(std::span<const TensorView> views,
                                                        std::span<const float> bias, bool exact) {
  const bool cut = std::ranges::all_of(views, [](const TensorView& view) { return view.rows() % 2 == 0; });
  std::vector<DevicePart> parts;
  for (std::size_t first = 0; first < views.size();) {
    std::size_t behind = first + 1;
    const Element element = element_for(cut ? views.subspan(first, 1) : views, exact);
    while (behind < views.size() && (!cut || element_for(views.subspan(behind, 1), exact) == element))
      ++behind;
    const auto own = views.subspan(first, behind - first);
    auto weight = place_rows(own, element);
    if (!weight) return weight.error();
    DevicePart part = {.element = element, .weight = *weight};
    for (const TensorView& view : own) part.n += static_cast<std::int32_t>(view.rows());
    if (!bias.empty()) {
      auto values = place(std::as_bytes(bias.first(static_cast<std::size_t>(part.n))), "bias");
      if (!values) return values.error();
      part.bias = reinterpret_cast<const float*>(*values);
      bias = bias.subspan(static_cast<std::size_t>(part.n));
    }
    parts.push_back(part);
    first = behind;
  }
  return parts;
}

Result<TensorView> DeviceOps::place_table(const TensorView& table) {
  const std::span<const TensorView> one(&table, 1);
  const Element element = element_for(one, false);
  auto there = place_rows(one, element);
  if (!there) return there.error();
  tables_.emplace_back(*there, element);
  TensorView placed = table;
  placed.data = *there;
  return placed;
}

Element DeviceOps::element_of(const TensorView& table) const {
  const auto found = std::ranges::find(tables_, table.data, &std::pair<const std::byte*, Element>::first);
  CHECK(found != tables_.end());
  return found->second;
}

void DeviceOps::begin_step(std::span<const std::int32_t> image, const std::int32_t* there) {
  image_ = std::as_bytes(image);
  image_there_ = reinterpret_cast<const std::byte*>(there);
  shown_.clear();
}

DeviceOps::Sequences DeviceOps::show(std::span<const AttentionSequence> sequences) {
  for (const auto& [of, shown] : shown_)
    if (of == sequences.data()) return shown;
  std::vector<device::SequenceRows> rows;
  std::vector<std::int32_t> of_rows;
  for (const AttentionSequence& sequence : sequences) {
    of_rows.resize(static_cast<std::size_t>(sequence.query_start + sequence.num_queries),
                   static_cast<std::int32_t>(rows.size()));
    const auto blocks = static_cast<std::size_t>(1);  // its place in the image says where all of them are
    rows.push_back({.first_row = sequence.query_start,
                    .num_rows = sequence.num_queries,
                    .context = sequence.context_len,
                    .table = there(std::span(sequence.block_table, blocks))});
  }
  Sequences shown = {.num_rows = std::ssize(of_rows)};
  shown.sequences = there(rows);
  shown.of_rows = there(of_rows);
  shown_.emplace_back(sequences.data(), shown);
  return shown;
}

device::StatesArgs DeviceOps::show(const LayerStates& states, std::int32_t first, std::int32_t count) {
  std::vector<device::StateRows> rows;
  std::vector<device::StoreRows> stores;
  std::vector<float*> pieces;
  const auto put_pieces = [&](const auto& of) {
    const auto at = static_cast<std::int32_t>(pieces.size());
    for (std::int32_t i = 0; i < count; ++i) pieces.push_back(states.piece(of, first + i));
    return at;
  };
  for (const StateSequence& sequence : states.sequences) {
    rows.push_back({.first_row = sequence.first_row,
                    .num_rows = sequence.num_rows,
                    .num_drafts = sequence.num_drafts,
                    .fresh = sequence.fresh ? 1 : 0,
                    .first_store = static_cast<std::int32_t>(stores.size()),
                    .num_stores = static_cast<std::int32_t>(sequence.stores.size()),
                    .first_piece = put_pieces(sequence)});
    for (const StateStore& store : sequence.stores)
      stores.push_back({.num_rows = store.num_rows, .first_piece = put_pieces(store)});
  }
  device::StatesArgs args = {.sequences = there(rows), .stores = there(stores)};
  args.pieces = there(pieces);
  return args;
}

float* DeviceOps::room(Room which, std::int64_t floats) {
  DeviceArray<float>& array = rooms_[static_cast<std::size_t>(which)];
  if (floats <= array.count()) return array.data();
  keep(device_.synchronize(stream_));  // the old one is in use
  bytes_ -= array.size_bytes();
  array = {};
  auto made = DeviceArray<float>::create(device_, floats, "room between kernels");
  if (!made) {
    keep(made.error());
    return nullptr;
  }
  array = *std::move(made);
  bytes_ += array.size_bytes();
  return array.data();
}

}  // namespace pagoda
