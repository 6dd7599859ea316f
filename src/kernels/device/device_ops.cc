#include "kernels/device/device_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/device/stored_rows.h"

namespace pagoda {
namespace {

using device::DeviceArray;
using device::Element;

std::int64_t num_rows(std::span<const TensorView> views) {
  std::int64_t rows = 0;
  for (const TensorView& view : views) rows += view.rows();
  return rows;
}

}  // namespace

Result<std::byte*> DeviceOps::allocate(std::int64_t bytes, std::string_view name) {
  auto there = take(bytes, name);
  if (there && bytes > 0) written_.emplace_back(*there, static_cast<std::size_t>(bytes));
  return there;
}

std::vector<std::span<std::byte>> DeviceOps::written() const {
  std::vector<std::span<std::byte>> all = written_;
  for (const DeviceArray<float>& scratch : scratch_)
    if (scratch.count() > 0)
      all.emplace_back(scratch.bytes(), static_cast<std::size_t>(scratch.size_bytes()));
  if (tickets_.count() > 0)
    all.emplace_back(tickets_.bytes(), static_cast<std::size_t>(tickets_.size_bytes()));
  return all;
}

Result<std::byte*> DeviceOps::take(std::int64_t bytes, std::string_view name) {
  if (bytes == 0) return nullptr;
  auto array = DeviceArray<std::byte>::create(device_, bytes, name);
  if (!array) return array.error();
  bytes_ += bytes;
  return arrays_.emplace_back(*std::move(array)).data();
}

WeightUpload& DeviceOps::upload() {
  if (!upload_) upload_ = std::make_unique<WeightUpload>(device_, stream_, pool_);
  return *upload_;
}

Status DeviceOps::finish_placing() {
  const Status status = upload_ ? upload_->finish() : ok_status();
  upload_.reset();
  pool_ = nullptr;
  return status;
}

Result<std::byte*> DeviceOps::place(std::span<const std::byte> values, std::string_view name) {
  auto there = take(std::ssize(values), name);
  if (there) PAGODA_RETURN_IF_ERROR(upload().send(*there, values));
  return there;
}

// With weights in f32, quantised numbers are kept; their kernels multiply without rounding.
Element DeviceOps::element_for(std::span<const TensorView> views, bool exact) const {
  if (exact && options_.weights != Element::f32) return Element::f32;
  if (options_.products == MatrixProducts::library) return options_.weights;
  return quantized_element(views).value_or(options_.weights);
}

Result<const std::byte*> DeviceOps::place_rows(std::span<const TensorView> views, Element element) {
  const std::int64_t row_bytes = device::KernelLaunches::row_bytes(element, views.front().columns());
  auto there = take(num_rows(views) * row_bytes, "weights");
  if (!there) return there.error();
  PAGODA_RETURN_IF_ERROR(upload().send_rows(views, element, *there));
  return static_cast<const std::byte*>(*there);
}

// Experts have one type: scales of rows are stored as scales of blocks that are all equal.
Element DeviceOps::series_element(std::span<const TensorView> views, bool exact) const {
  const Element element = element_for(views, exact);
  return element == Element::fp8 ? Element::fp8_blocks : element;
}

void DeviceOps::continue_series(std::size_t which, std::int64_t count) {
  next_ = &series_[which];
  if (next_->used == next_->count) *next_ = {.count = count};
}

// The first matrix allocates space for all.
Result<DevicePart> DeviceOps::place_in(Series& series, std::span<const TensorView> views,
                                       std::span<const float> bias, bool exact) {
  const std::int64_t rows = num_rows(views);
  if (series.used == 0) {
    series.element = series_element(views, exact);
    auto weights =
        take(series.count * rows * device::KernelLaunches::row_bytes(series.element, views.front().columns()),
             "weights");
    if (!weights) return weights.error();
    series.weights = *weights;
    if (!bias.empty()) {
      auto biases = take(series.count * rows * static_cast<std::int64_t>(sizeof(float)), "bias");
      if (!biases) return biases.error();
      series.biases = reinterpret_cast<float*>(*biases);
    }
  }
  if (series.element > Element::bf16 && series_element(views, exact) != series.element)
    return corrupt_data("experts of several types");
  const std::int64_t bytes =
      rows * device::KernelLaunches::row_bytes(series.element, views.front().columns());
  std::byte* const to = series.weights + series.used * bytes;
  PAGODA_RETURN_IF_ERROR(upload().send_rows(views, series.element, to));
  DevicePart part = {.element = series.element, .weight = to, .n = static_cast<std::int32_t>(rows)};
  if (series.biases != nullptr) {
    CHECK(std::ssize(bias) == rows);
    float* const own = series.biases + series.used * rows;
    PAGODA_RETURN_IF_ERROR(upload().send(reinterpret_cast<std::byte*>(own), std::as_bytes(bias)));
    part.bias = own;
  }
  ++series.used;
  return part;
}

// Kernels store pairs of columns: parts of odd heights are not divided, but widened together.
Result<std::vector<DevicePart>> DeviceOps::place_matrix(std::span<const TensorView> views,
                                                        std::span<const float> bias, bool exact) {
  if (Series* const series = std::exchange(next_, nullptr)) {
    auto part = place_in(*series, views, bias, exact);
    if (!part) return part.error();
    return std::vector<DevicePart>{*part};
  }
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

std::int64_t DeviceOps::table_bytes(const TensorView& table) const {
  return table.rows() * device::KernelLaunches::row_bytes(element_of(table), table.columns());
}

float* DeviceOps::scratch(Scratch which, std::int64_t floats) {
  DeviceArray<float>& array = scratch_[static_cast<std::size_t>(which)];
  if (which == Scratch::rows) normed_.reset();
  if (which == Scratch::rounded) rounded_.reset();
  if (which == Scratch::attended) attended_.reset();
  if (floats <= array.count()) return array.data();
  if (captures_) {
    refuse_capture("it needs more room than was reserved");
    return array.data();
  }
  keep(device_.synchronize(stream_));  // the old one is in use
  bytes_ -= array.size_bytes();
  array = {};
  auto made = DeviceArray<float>::create(device_, floats, "scratch");
  if (!made) {
    keep(made.error());
    return nullptr;
  }
  array = *std::move(made);
  bytes_ += array.size_bytes();
  return array.data();
}

std::uint32_t* DeviceOps::tickets() {
  if (tickets_.count() > 0) return tickets_.data();
  if (captures_) {
    refuse_capture("it needs counters that were not reserved");
    return nullptr;
  }
  auto made = DeviceArray<std::uint32_t>::create(device_, kTickets, "tickets");
  if (!made) {
    keep(made.error());
    return nullptr;
  }
  tickets_ = *std::move(made);
  bytes_ += tickets_.size_bytes();
  keep(layers_.row_op({.op = device::RowOp::zero,
                       .y = {.data = reinterpret_cast<float*>(tickets_.data()), .stride = kTickets},
                       .width = static_cast<std::int32_t>(kTickets)},
                      1));
  return tickets_.data();
}

Status DeviceOps::reserve(std::int64_t max_rows, const Widths& widths, std::int64_t partial_floats) {
  scratch(Scratch::rows, max_rows * widths.rows);
  scratch(Scratch::heads, max_rows * widths.heads);
  scratch(Scratch::products, max_rows * widest_products_);
  if (options_.rounds()) {
    const std::int64_t widest = std::max(widths.rows, widest_input_);
    scratch(Scratch::rounded,
            options_.products == MatrixProducts::w8a8
                ? (device::KernelLaunches::float8_input_bytes(Element::fp8_blocks, max_rows, widest) +
                   2 * max_rows * widest) /
                      4
                : (max_rows * widest + 1) / 2);
    scratch(Scratch::attended, (max_rows * widths.attended + 1) / 2);
  }
  scratch(Scratch::partial, partial_floats);
  if (partial_floats > 0) tickets();
  return take_status();
}

bool DeviceOps::Normed::is(const LinearInput& other, std::int64_t other_rows, std::int64_t other_k) const {
  return num_rows == other_rows && k == other_k && other.x == input.x && other.stride == input.stride &&
         other.op == input.op && other.weight == input.weight && other.bias == input.bias &&
         other.eps == input.eps;
}

bool DeviceOps::Normed::was_made_of(const float* first, const float* end) const {
  return input.x < end && first < input.x + num_rows * input.stride;
}

const float* DeviceOps::find_normed(const LinearInput& input, std::int64_t num_rows, std::int64_t k) const {
  if (!normed_ || !normed_->is(input, num_rows, k)) return nullptr;
  return scratch_[static_cast<std::size_t>(Scratch::rows)].data();
}

void DeviceOps::keep_normed(const LinearInput& input, std::int64_t num_rows, std::int64_t k) {
  normed_ = {.input = input, .num_rows = num_rows, .k = k};
}

const std::uint16_t* DeviceOps::find_rounded(const LinearInput& input, std::int64_t num_rows,
                                             std::int64_t k) const {
  if (!rounded_ || !rounded_->is(input, num_rows, k)) return nullptr;
  return reinterpret_cast<const std::uint16_t*>(scratch_[static_cast<std::size_t>(Scratch::rounded)].data());
}

void DeviceOps::keep_rounded(const LinearInput& input, std::int64_t num_rows, std::int64_t k) {
  rounded_ = {.input = input, .num_rows = num_rows, .k = k};
}

void DeviceOps::keep_attended(const LinearInput& output, std::int64_t num_rows, std::int64_t k) {
  attended_ = {.input = output, .num_rows = num_rows, .k = k};
}

const std::uint16_t* DeviceOps::take_attended(const LinearInput& input, std::int64_t num_rows,
                                              std::int64_t k) {
  if (!attended_ || attended_->input.x != input.x) return nullptr;
  CHECK(attended_->is(input, num_rows, k));  // there is no other copy
  attended_.reset();
  return reinterpret_cast<const std::uint16_t*>(scratch_[static_cast<std::size_t>(Scratch::attended)].data());
}

void DeviceOps::wrote(const Buffer& y, std::int64_t num_rows) {
  const float *const first = floats(y), *const end = first + num_rows * y.stride;
  for (std::optional<Normed>* const made : {&normed_, &rounded_})
    if (*made && (*made)->was_made_of(first, end)) made->reset();
}

}  // namespace pagoda
