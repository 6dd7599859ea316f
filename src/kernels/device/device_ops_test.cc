// Goal: each op on an emulated device (or a GPU: device/test_device.h) gives what the reference gives, on
// rows that lie apart; and rows of recurrent layers have the bits that they have alone and in steps, drafts
// or not.
#include "kernels/device/device_ops.h"

#include <gtest/gtest.h>

#include <functional>

#include "device/test_support.h"
#include "kernels/attention_input.h"
#include "kernels/causal_conv.h"
#include "kernels/elementwise.h"
#include "kernels/latent_input.h"
#include "kernels/linear_attention.h"
#include "kernels/mixture.h"
#include "kernels/residual_streams.h"
#include "kernels/rows.h"
#include "kernels/selective_scan.h"
#include "kernels/testing.h"

namespace pagoda {
namespace {

const KernelContext kPlain = {.backend = Backend::reference};

// A context on a device, and arrays that are the same on both sides.
class DeviceOpsTest : public ::testing::Test {
 protected:
  DeviceOpsTest()
      : arena_(bench_.device(), bench_.stream()),
        ops_(bench_.device(), bench_.stream(), arena_, {.weights = device::Element::f32}),
        there_{.backend = Backend::device, .device = &ops_} {}

  float* put(const std::vector<float>& values) { return bench_.put(values); }
  Buffer put_rows(const std::vector<float>& values, std::int64_t stride) {
    return Buffer::of(put(values), stride);
  }
  void begin_step(const std::vector<std::int32_t>& image) {
    arena_.begin();
    ops_.begin_step(image, *arena_.put(std::span<const std::int32_t>(image)));
  }
  // Compares the rows that an op makes on the device with those of the reference.
  void expect_same(const std::vector<float>& before, std::int64_t stride,
                   const std::function<void(const KernelContext&, const Buffer&)>& here,
                   const std::function<void(const KernelContext&, const Buffer&)>& there) {
    std::vector<float> wanted = before;
    here(kPlain, Buffer::of(wanted.data(), stride));
    const Buffer x = put_rows(before, stride);
    there(there_, x);
    const Status status = ops_.take_status();
    ASSERT_TRUE(status.ok()) << status.message();
    expect_near(bench_.get(floats(x), before.size()), wanted);
  }
  static void expect_near(const std::vector<float>& made, const std::vector<float>& wanted) {
    ASSERT_EQ(made.size(), wanted.size());
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], wanted[i], 4e-5 * (1 + std::fabs(wanted[i]))) << i;
  }

  device::KernelBench bench_{3};
  device::StepArena arena_;
  DeviceOps ops_;
  KernelContext there_;
};

constexpr std::int64_t kRows = 5, kWidth = 36, kStride = 44;
constexpr RowShape kShape = {kRows, kWidth};

std::vector<float> some(std::uint64_t seed, std::int64_t count = kRows * kStride) {
  return random_floats(seed, static_cast<std::size_t>(count), 3);
}

TEST_F(DeviceOpsTest, RowOpsAreTheReferences) {
  const std::vector<float> a = some(2), b = some(3), vector = some(4, kWidth);
  const Buffer a_here = Buffer::of(a.data(), kStride), b_here = Buffer::of(b.data(), kStride);
  const Buffer a_there = put_rows(a, kStride), b_there = put_rows(b, kStride);
  const float* const vector_there = put(vector);
  const std::vector<std::int32_t> positions = {0, 2, 3, 7, 11};
  using C = const KernelContext&;
  using B = const Buffer&;
  struct Operands {
    Buffer a, b;
    const float* vector;
  };
  const auto check = [&](const std::function<void(C, B, const Operands&)>& op) {
    expect_same(
        some(1), kStride, [&](C c, B x) { op(c, x, {a_here, b_here, vector.data()}); },
        [&](C c, B x) { op(c, x, {a_there, b_there, vector_there}); });
  };
  check([](C c, B x, const Operands&) { zero_rows(c, kShape, x); });
  check([](C c, B x, const Operands& o) { copy_rows(c, kShape, o.a, x); });
  check([](C c, B x, const Operands&) { scale_rows(c, kShape, 0.5f, x); });
  check([](C c, B x, const Operands& o) { add_rows(c, kShape, 3, o.a, x); });
  check([](C c, B x, const Operands& o) { add_sum(c, kShape, o.a, o.b, x); });
  check([](C c, B x, const Operands& o) { join_rows(c, kShape, o.a, 0.5f, x); });
  check([](C c, B x, const Operands& o) { add_vector(c, kShape, o.vector, x); });
  check([](C c, B x, const Operands& o) { times_vector(c, kShape, o.a, o.vector, x); });
  check([](C c, B x, const Operands& o) { add_share(c, kShape, 2, o.b, o.a, x); });
  check([](C c, B x, const Operands& o) { times_sum(c, kShape, o.a, 2, o.b, 0.5f, x); });
  check([](C c, B x, const Operands& o) { times_gates(c, kShape, GateFunction::softplus, 4, o.a, x); });
  check([](C c, B x, const Operands& o) { times_sigmoid(c, kRows, kWidth, x, o.a); });
  check([](C c, B x, const Operands&) { cap_rows(c, kShape, 2, x); });
  check([](C c, B x, const Operands&) {
    xielu(c, kShape, {.beta = 0.5f, .eps = -1e-6f, .positive = 0.8f, .negative = 0.7f}, x);
  });
  check([&](C c, B x, const Operands&) {
    scale_by_position(c, kShape, {.beta = 0.5f, .offset = 1, .positions = 4}, positions, x);
  });
  check([](C c, B x, const Operands& o) { rms_norm(c, x, kRows, kWidth, o.vector, 1e-5f, x); });
  check([](C c, B x, const Operands& o) { layer_norm(c, x, kRows, kWidth, o.vector, o.vector, 1e-5f, x); });
  check([](C c, B x, const Operands&) { heads_to_unit(c, x, kRows, 3, 12, 1e-6f, 0.25f); });
  for (const bool gate_first : {false, true})
    check([&](C c, B x, const Operands& o) {
      gated_rms_norm(c,
                     {.num_groups = 3,
                      .group_size = 12,
                      .weight = o.vector,
                      .own_weights = true,
                      .gate_first = gate_first,
                      .eps = 1e-5f},
                     kRows, x, o.a);
    });
  check([](C c, B x, const Operands& o) {
    recurrent_gates(c, {.delta_rule = true, .num_heads = 8, .rate = o.vector, .bias = o.vector + 8}, kRows, x,
                    x.at(0, 8));
  });
  check([](C c, B x, const Operands& o) {
    match_magnitude(c, {.num_rows = kRows, .width = kWidth, .streams = 3}, o.a, o.b, StreamSum::added_last,
                    x);
  });
}

TEST_F(DeviceOpsTest, RowsThatAreGatheredMoveToTheFront) {
  const std::vector<std::int32_t> rows = {1, 2, 4};
  const auto op = [&](const KernelContext& context, const Buffer& x) {
    gather_rows(context, rows, kStride, x);
  };
  expect_same(some(1), kStride, op, op);
}

TEST_F(DeviceOpsTest, StreamsAreTheReferences) {
  constexpr std::int64_t kStreams = 3;
  const StreamShape shape = {.num_rows = kRows, .width = kWidth, .streams = kStreams};
  const std::vector<float> others = some(5, kRows * 2 * kWidth), modes = some(6, kRows * kStreams),
                           factors = some(7, 27), predicted = some(8, kRows * kWidth);
  for (const bool predicts : {true, false}) {
    std::vector<float> wanted = others, before = predicted;
    const auto run = [&](const KernelContext& c, const Buffer& x, const float* f, Buffer m, Buffer o,
                         Buffer p) {
      turn_modes(c, shape, m);
      if (predicts)
        predict_streams(c, shape, f, m, x, o, p);
      else
        correct_streams(c, shape, f, m, p, x, o);
      add_to_streams(c, shape, x, o);
    };
    std::vector<float> turned = modes;
    const Buffer o = put_rows(others, 2 * kWidth), p = put_rows(predicted, kWidth),
                 m = put_rows(modes, kStreams);
    const float* const f = put(factors);
    expect_same(
        some(1), kStride,
        [&](const KernelContext& c, const Buffer& x) {
          run(c, x, factors.data(), Buffer::of(turned.data(), kStreams),
              Buffer::of(wanted.data(), 2 * kWidth), Buffer::of(before.data(), kWidth));
        },
        [&](const KernelContext& c, const Buffer& x) { run(c, x, f, m, o, p); });
    expect_near(bench_.get(floats(o), others.size()), wanted);
    expect_near(bench_.get(floats(p), predicted.size()), before);
  }
}

TEST_F(DeviceOpsTest, ProductsTakeNormsFunctionsAndSums) {
  constexpr std::int64_t kOut = 24;
  const std::vector<float> weight = some(2, 2 * kOut * kWidth), bias = some(3, 2 * kOut), x = some(4),
                           norm = some(5, kWidth);
  const auto* const bytes = reinterpret_cast<const std::byte*>(weight.data());
  const TensorView gate = {DType::f32, {kOut, kWidth}, bytes},
                   up = {DType::f32, {kOut, kWidth}, bytes + gate.bytes()};
  const Buffer x_there = put_rows(x, kStride);
  const float* const norm_there = put(norm);
  for (const bool gated : {false, true}) {
    const auto form = gated ? LinearForm::gated : LinearForm::stacked;
    const std::int64_t n = gated ? kOut : 2 * kOut;
    const std::array views = {gate, up};
    const auto run = [&](const KernelContext& context, const Buffer& input, const float* norm_weight,
                         const Buffer& y) {
      auto packed = PackedLinear::pack(context, LinearType::float32, views, bias, form);
      ASSERT_TRUE(packed);
      LinearInput rows = LinearInput::rows(input);
      rows.op = LinearInput::Op::rms_norm;
      rows.weight = norm_weight;
      rows.eps = 1e-5f;
      linear(context, *packed, rows, kRows, y,
             gated ? LinearOutput{.activation = Activation::gelu_tanh} : LinearOutput{.accumulate = true});
    };
    expect_same(
        some(6, kRows * n), n,
        [&](const KernelContext& c, const Buffer& y) {
          run(c, Buffer::of(x.data(), kStride), norm.data(), y);
        },
        [&](const KernelContext& c, const Buffer& y) { run(c, x_there, norm_there, y); });
  }
}

// Products by tiles: few rows take norms and functions into their launch, many do not.
TEST_F(DeviceOpsTest, RowsOfProductsHaveTheBitsThatTheyHaveAlone) {
  DeviceOps ops(bench_.device(), bench_.stream(), arena_, {.weights = device::Element::bf16});
  const KernelContext context = {.backend = Backend::device, .device = &ops};
  constexpr std::int64_t kAll = 18, kOut = 12;
  const std::int64_t few = device::KernelLaunches::few_rows();
  for (const std::int64_t width : {std::int64_t{96}, std::int64_t{1032}})
    for (const bool gated : {false, true}) {
      SCOPED_TRACE(::testing::Message() << width << (gated ? " gated" : ""));
      const auto floats_of = [](std::uint64_t seed, std::int64_t count) {
        return random_floats(seed, static_cast<std::size_t>(count));
      };
      const std::vector<float> first = floats_of(1, kOut * width), second = floats_of(2, kOut * width),
                               bias = floats_of(3, 2 * kOut);
      std::vector<TensorView> views;
      for (const std::vector<float>* const matrix : {&first, &second})
        views.push_back({.dtype = DType::f32,
                         .shape = {kOut, width},
                         .data = reinterpret_cast<const std::byte*>(matrix->data())});
      auto packed = PackedLinear::pack(context, LinearType::bfloat16, views, bias,
                                       gated ? LinearForm::gated : LinearForm::stacked);
      ASSERT_TRUE(packed.has_value());
      const std::int64_t columns = packed->n();
      const float* const x = put(floats_of(4, kAll * width));
      const float *const weight = put(floats_of(5, width)), *const norm_bias = put(floats_of(6, width));
      for (const auto op : {LinearInput::Op::none, LinearInput::Op::rms_norm, LinearInput::Op::layer_norm})
        for (const bool function : {false, true}) {
          if (gated && !function) continue;
          const auto rows = [&](std::int64_t from, std::int64_t count) {
            LinearInput input = LinearInput::rows(x + from * width, width);
            input.op = op;
            if (op != LinearInput::Op::none) input.weight = weight, input.eps = 1e-5f;
            if (op == LinearInput::Op::layer_norm) input.bias = norm_bias;
            LinearOutput output;
            if (function) output.activation = Activation::silu;
            float* const y = bench_.make<float>(static_cast<std::size_t>(count * columns));
            linear(context, *packed, input, count, Buffer::of(y, columns), output);
            EXPECT_TRUE(ops.take_status().ok());
            return bench_.get(y, static_cast<std::size_t>(count * columns));
          };
          const std::vector<float> all = rows(0, kAll);
          using Part = std::pair<std::int64_t, std::int64_t>;
          for (const auto& [from, count] : {Part{0, 1}, Part{17, 1}, Part{3, 2}, Part{1, 3}, Part{1, few},
                                            Part{1, few + 1}, Part{2, 16}}) {
            const std::vector<float> wanted(all.begin() + from * columns,
                                            all.begin() + (from + count) * columns);
            EXPECT_TRUE(same_bits(rows(from, count), wanted))
                << count << " rows from " << from << ", norm " << static_cast<int>(op);
          }
        }
    }
}

// A graph of a product with its norm gives the bits of the op; an op that needs more room than any before
// cannot be captured, and the emulated device says so.
TEST_F(DeviceOpsTest, OpsAreCapturedOnceTheirScratchIsThere) {
  DeviceOps ops(bench_.device(), bench_.stream(), arena_, {.weights = device::Element::bf16});
  const KernelContext context = {.backend = Backend::device, .device = &ops};
  constexpr std::int64_t kIn = 64, kOut = 12, kMany = 20;
  const std::vector<float> matrix = random_floats(1, kOut * kIn);
  const std::vector<TensorView> views = {
      {DType::f32, {kOut, kIn}, reinterpret_cast<const std::byte*>(matrix.data())}};
  auto packed = PackedLinear::pack(context, LinearType::bfloat16, views);
  ASSERT_TRUE(packed.has_value());
  LinearInput input = LinearInput::rows(put(random_floats(2, kMany * kIn)), kIn);
  input.op = LinearInput::Op::rms_norm, input.weight = put(random_floats(3, kIn)), input.eps = 1e-5f;
  float* const y = bench_.make<float>(kMany * kOut);
  device::Device& device = bench_.device();
  for (const std::int64_t rows : {std::int64_t{1}, kMany}) {
    linear(context, *packed, input, rows, Buffer::of(y, kOut));
    const auto count = static_cast<std::size_t>(rows * kOut);
    const std::vector<float> wanted = bench_.get(y, count);
    ASSERT_TRUE(device.begin_capture(bench_.stream()).ok());
    linear(context, *packed, input, rows, Buffer::of(y, kOut));
    const auto graph = device.end_capture(bench_.stream());
    ASSERT_TRUE(graph.has_value() && ops.take_status().ok());
    const auto cleared = bench_.put(std::vector<float>(count));
    ASSERT_TRUE(device
                    .copy(bench_.stream(), reinterpret_cast<std::byte*>(y),
                          reinterpret_cast<const std::byte*>(cleared), count * sizeof(float))
                    .ok());
    ASSERT_TRUE(device.launch_graph(bench_.stream(), *graph).ok());
    EXPECT_TRUE(same_bits(bench_.get(y, count), wanted)) << rows;
  }
  DeviceOps others(device, bench_.stream(), arena_, ops.options());
  ASSERT_TRUE(device.begin_capture(bench_.stream()).ok());
  linear({.backend = Backend::device, .device = &others}, *packed, input, kMany, Buffer::of(y, kOut));
  EXPECT_FALSE(others.take_status().ok());
}

// Two sequences, of which one begins and one goes on with drafts, and a copy of a state in between.
TEST_F(DeviceOpsTest, RecurrentLayersAreTheReferences) {
  constexpr std::int32_t kTaps = 4, kHeads = 4, kKeyHeads = 2, kKey = 6, kValue = 40;
  constexpr std::int64_t kChannels = 36, kState = std::int64_t{kKey} * kValue, kPieces = 1 + kHeads,
                         kTotal = 6, kPieceFloats = 256;
  ASSERT_LE(std::max(kState, (kTaps - 1) * kChannels), kPieceFloats);
  const std::vector<float> x = some(1, kTotal * 400), weight = some(2, kTaps * kChannels),
                           gates = random_floats(3, kTotal * 2 * kHeads, 0.4f), skip = some(4, kHeads),
                           states = some(5, 3 * kPieces * kPieceFloats);
  const auto run = [&](const KernelContext& c, float* base, const Buffer& rows, const Buffer& gate,
                       const float* taps, const float* skips, const Buffer& conv_out, const Buffer& out) {
    std::vector<float*> pieces;
    for (std::int64_t i = 0; i < 3 * kPieces; ++i) pieces.push_back(base + i * kPieceFloats);
    const StateStore store = {.num_rows = 1, .pieces = pieces.data() + 2 * kPieces};
    const std::vector<StateSequence> sequences = {
        {.first_row = 0, .num_rows = 2, .fresh = true, .pieces = pieces.data()},
        {.first_row = 2,
         .num_rows = 4,
         .num_drafts = 2,
         .pieces = pieces.data() + kPieces,
         .stores = std::span(&store, 1)}};
    causal_conv(c, {.num_channels = kChannels,
                    .num_taps = kTaps,
                    .weight = taps,
                    .silu = true,
                    .input = rows,
                    .gate = rows.at(0, 100),
                    .output_gate = rows.at(0, 200),
                    .output = conv_out,
                    .states = {.sequences = sequences, .num_pieces = kPieces}});
    linear_attention(c, {.num_heads = kHeads,
                         .num_key_heads = kKeyHeads,
                         .key_size = kKey,
                         .value_size = kValue,
                         .delta_rule = true,
                         .query = rows,
                         .key = rows.at(0, 20),
                         .value = rows.at(0, 40),
                         .decay = gate,
                         .weight = gate.at(0, kHeads),
                         .skip = skips,
                         .output = out,
                         .states = {.sequences = sequences, .num_pieces = kPieces},
                         .piece = 1});
  };
  std::vector<float> kept = states, conv(kTotal * kChannels), out(kTotal * kHeads * kValue);
  run(kPlain, kept.data(), Buffer::of(x.data(), 400), Buffer::of(gates.data(), 2 * kHeads), weight.data(),
      skip.data(), Buffer::of(conv.data(), kChannels), Buffer::of(out.data(), kHeads * kValue));
  float* const there = put(states);
  const Buffer conv_there = Buffer::of(bench_.make<float>(conv.size()), kChannels),
               out_there = Buffer::of(bench_.make<float>(out.size()), kHeads * kValue);
  run(there_, there, put_rows(x, 400), put_rows(gates, 2 * kHeads), put(weight), put(skip), conv_there,
      out_there);
  ASSERT_TRUE(ops_.take_status().ok());
  expect_near(bench_.get(floats(conv_there), conv.size()), conv);
  const auto near = [](const std::vector<float>& made, const std::vector<float>& wanted) {
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], wanted[i], 1e-3 * (1 + std::fabs(wanted[i]))) << i;
  };
  near(bench_.get(floats(out_there), out.size()), out);
  near(bench_.get(there, states.size()), kept);
}

// The same of channels that keep a vector each, more of them than a piece and a block have.
TEST_F(DeviceOpsTest, ScansAreTheReferences) {
  constexpr std::int64_t kChannels = 300, kPieces = 2, kTotal = 6, kStride = 2 * kChannels + 20;
  constexpr std::int32_t kSize = 5;
  const std::int64_t of_piece = kScanChannels * kSize;
  const std::vector<float> x = some(1, kTotal * kStride), skip = some(4, kChannels),
                           states = some(5, 3 * kPieces * of_piece);
  std::vector<float> rate = some(2, kChannels * kSize);
  for (float& each : rate) each = -std::fabs(each);
  const auto run = [&](const KernelContext& c, float* base, const Buffer& rows, const float* rates,
                       const float* skips) {
    std::vector<float*> pieces;
    for (std::int64_t i = 0; i < 3 * kPieces; ++i) pieces.push_back(base + i * of_piece);
    const StateStore store = {.num_rows = 1, .pieces = pieces.data() + 2 * kPieces};
    const std::vector<StateSequence> sequences = {
        {.first_row = 0, .num_rows = 2, .fresh = true, .pieces = pieces.data()},
        {.first_row = 2,
         .num_rows = 4,
         .num_drafts = 2,
         .pieces = pieces.data() + kPieces,
         .stores = std::span(&store, 1)}};
    selective_scan(c, {.num_channels = kChannels,
                       .state_size = kSize,
                       .rate = rates,
                       .skip = skips,
                       .step = rows,
                       .value = rows.at(0, kChannels),
                       .key = rows.at(0, 2 * kChannels),
                       .query = rows.at(0, 2 * kChannels + kSize),
                       .output = rows,
                       .states = {.sequences = sequences, .num_pieces = kPieces}});
  };
  std::vector<float> kept = states, made = x;
  run(kPlain, kept.data(), Buffer::of(made.data(), kStride), rate.data(), skip.data());
  float* const there = put(states);
  const Buffer rows = put_rows(x, kStride);
  run(there_, there, rows, put(rate), put(skip));
  ASSERT_TRUE(ops_.take_status().ok());
  expect_near(bench_.get(floats(rows), made.size()), made);
  expect_near(bench_.get(there, states.size()), kept);
}

// Tables of a group with a window, sinks; rows of queries, keys and values alone, rows with more behind
// them, and latent rows.
TEST_F(DeviceOpsTest, AttentionIsTheReferences) {
  constexpr std::int32_t kBlock = 4, kQueryHeads = 4;
  for (const std::int64_t more : {0, 3, -1}) {
    const bool latent = more < 0;
    const std::int32_t head = latent ? 12 : 8, kv_heads = latent ? 1 : 2;
    const KvLayout layout = {.dtype = DType::f32,
                             .num_layers = 2,
                             .num_kv_heads = kv_heads,
                             .head_size = head,
                             .block_size = kBlock,
                             .latent_size = latent ? 8 : 0};
    const std::vector<std::int32_t> table = {3, 1, 0, 2, 4};
    const std::int64_t width = (kQueryHeads + 2 * kv_heads) * head + std::max<std::int64_t>(more, 0),
                       wide = kQueryHeads * layout.value_size();
    const std::vector<float> rows = some(1, 18 * width), sinks = some(2, kQueryHeads);
    // A prompt of 11 tokens, then 7 more.
    const auto run = [&](const KernelContext& c, std::byte* cache, const Buffer& x, const float* sink,
                         const Buffer& y) {
      for (const AttentionSequence sequence :
           {AttentionSequence{0, 11, 11, table.data()}, {0, 7, 18, table.data()}}) {
        const std::int64_t first = sequence.context_len - sequence.num_queries;
        begin_step(table);
        const Buffer own = x.at(first);
        paged_attention(c, {.layout = layout,
                            .cache = cache,
                            .layer = 1,
                            .sequences = std::span(&sequence, 1),
                            .query = own,
                            .key = own.at(0, kQueryHeads * head),
                            .value = own.at(0, (kQueryHeads + kv_heads) * head),
                            .num_query_heads = kQueryHeads,
                            .scale = 0.3f,
                            .sliding_window = 6,
                            .sinks = sink,
                            .output = y.at(first)});
        if (on_device(c)) ASSERT_TRUE(bench_.device().synchronize(bench_.stream()).ok());
      }
    };
    std::vector<float> cache(5 * layout.block_bytes() / sizeof(float)), wanted(18 * wide);
    run(kPlain, reinterpret_cast<std::byte*>(cache.data()), Buffer::of(rows.data(), width), sinks.data(),
        Buffer::of(wanted.data(), wide));
    const Buffer y = Buffer::of(bench_.make<float>(wanted.size()), wide);
    run(there_, bench_.make<std::byte>(5 * layout.block_bytes()), put_rows(rows, width), put(sinks), y);
    const Status status = ops_.take_status();
    ASSERT_TRUE(status.ok()) << status.message();
    expect_near(bench_.get(floats(y), wanted.size()), wanted);
  }
}

// Prompts beside a sequence in decode, in two chunks: by warps, and by warpgroups where the device has them.
TEST_F(DeviceOpsTest, WarpgroupsAttendWithTheBitsOfTiles) {
  constexpr std::int32_t kQueryHeads = 4, kHeads = 1, kHead = 64, kTokens = 90;
  const KvLayout layout = {
      .dtype = DType::bf16, .num_layers = 2, .num_kv_heads = kHeads, .head_size = kHead, .block_size = 16};
  constexpr std::int64_t kQkv = (kQueryHeads + 2 * kHeads) * kHead, kOut = kQueryHeads * kHead;
  const std::vector<std::int32_t> image = {5, 2, 0, 3,
                                           1, 4, 6};  // six blocks of a prompt, and one of another
  const std::vector<float> rows = random_floats(7, (kTokens + 2) * kQkv, 1.5f);
  const auto run = [&](AttentionKernels kernels) {
    DeviceOps ops(bench_.device(), bench_.stream(), arena_,
                  {.weights = device::Element::bf16, .attention = kernels});
    const KernelContext there = {.backend = Backend::device, .device = &ops};
    std::byte* const cache = bench_.make<std::byte>(7 * layout.block_bytes());
    float* const out = bench_.make<float>((kTokens + 2) * kOut);
    const Buffer x = put_rows(rows, kQkv), y = Buffer::of(out, kOut);
    std::int32_t done = 0;
    EXPECT_TRUE(bench_.device().start_profile().ok());
    for (const std::int32_t count : {50, 40}) {
      arena_.begin();
      ops.begin_step(image, *arena_.put(std::span<const std::int32_t>(image)));
      const std::int32_t step = done == 0 ? 1 : 2;
      const AttentionSequence sequences[] = {{0, 1, step, image.data() + 6},
                                             {1, count, done + count, image.data()}};
      const Buffer own = x.at(done + step - 1);
      paged_attention(there, {.layout = layout,
                              .cache = cache,
                              .layer = 1,
                              .sequences = sequences,
                              .query = own,
                              .key = own.at(0, kOut),
                              .value = own.at(0, kOut + kHeads * kHead),
                              .num_query_heads = kQueryHeads,
                              .scale = 0.125f,
                              .output = y.at(done + step - 1)});
      done += count;
      EXPECT_TRUE(bench_.device().synchronize(bench_.stream()).ok());
    }
    const auto launched = bench_.device().end_profile();
    EXPECT_TRUE(launched.has_value() && ops.take_status().ok());
    EXPECT_EQ(
        std::ranges::any_of(
            *launched, [](const auto& line) { return std::string_view(line.kernel) == "attend_bulk_64"; }),
        kernels == AttentionKernels::warpgroups && bench_.device().has_warpgroups());
    return bench_.get(out, (kTokens + 2) * kOut);
  };
  EXPECT_TRUE(same_bits(run(AttentionKernels::tiles), run(AttentionKernels::warpgroups)));
}

// The product of queries, keys and values, every pass over heads, and attention over what was written: in
// one kernel with the write, where it has all of them, else before it.
TEST_F(DeviceOpsTest, HeadsAreFinishedOnTheirWayIntoTheCache) {
  using Kind = HeadNorms::Kind;
  constexpr std::int32_t kHeads = 4, kKvHeads = 2, kHead = 8, kRotary = 4, kTokens = 6;
  constexpr std::int64_t kQkv = (kHeads + 2 * kKvHeads) * kHead, kOut = kHeads * kHead;
  const KvLayout layout = {
      .dtype = DType::f32, .num_layers = 1, .num_kv_heads = kKvHeads, .head_size = kHead, .block_size = 4};
  const std::vector<float> x = some(1, kTokens * kWidth), weight = random_floats(2, kQkv * kWidth, 0.2f),
                           norm = some(3, kHeads * kHead), turns = some(4, 16 * kRotary);
  const TensorView view = {DType::f32, {kQkv, kWidth}, reinterpret_cast<const std::byte*>(weight.data())};
  const std::vector<std::int32_t> table = {1, 0}, positions = {0, 1, 2, 3, 4, 5}, lines = {5, 6, 7, 8, 9, 15};
  struct Case {
    Kind kind;
    bool behind = false, values = false;
    float clip = 0, amplitude = 1, beta = 0;
    bool one_kernel = true;
  };
  for (const Case& how :
       {Case{Kind::none}, Case{Kind::rms}, Case{Kind::rms_whole}, Case{Kind::layer},
        Case{.kind = Kind::none, .beta = 0.5f}, Case{.kind = Kind::rms, .amplitude = 1.5f, .beta = 0.5f},
        Case{.kind = Kind::rms, .behind = true, .amplitude = 1.5f, .one_kernel = false},
        Case{.kind = Kind::rms_whole, .behind = true, .one_kernel = false},
        Case{.kind = Kind::rms, .values = true, .one_kernel = false},
        Case{.kind = Kind::none, .clip = 2, .one_kernel = false}}) {
    const auto run = [&](const KernelContext& c, const Buffer& input, const float* norms,
                         const Buffer& angles, std::byte* cache, const Buffer& entered, const Buffer& y) {
      auto packed = PackedLinear::pack(c, LinearType::float32, std::span(&view, 1));
      ASSERT_TRUE(packed);
      const AttentionSequence sequence = {0, kTokens, kTokens, table.data()};
      begin_step(table);
      attention_input(c, {.weight = &*packed,
                          .input = LinearInput::rows(input),
                          .num_rows = kTokens,
                          .num_query_heads = kHeads,
                          .num_kv_heads = kKvHeads,
                          .head_size = kHead,
                          .norms = {.kind = how.kind,
                                    .query = norms,
                                    .key = norms,
                                    .values = how.values,
                                    .behind_rotation = how.behind,
                                    .eps = 1e-5f},
                          .clip = how.clip,
                          .rotary_size = kRotary,
                          .turns = lines,
                          .cos_sin = angles,
                          .amplitude = how.amplitude,
                          .query_scale = {.beta = how.beta, .offset = 1, .positions = 2},
                          .positions = positions,
                          .output = entered,
                          .written_next = true});
      paged_attention(c, {.layout = layout,
                          .cache = cache,
                          .sequences = std::span(&sequence, 1),
                          .query = entered,
                          .key = entered.at(0, kOut),
                          .value = entered.at(0, kOut + kKvHeads * kHead),
                          .num_query_heads = kHeads,
                          .scale = 0.3f,
                          .output = y});
      if (on_device(c)) ASSERT_TRUE(bench_.device().synchronize(bench_.stream()).ok());
    };
    std::vector<float> cache(2 * layout.block_bytes() / sizeof(float)), entered(kTokens * kQkv),
        wanted(kTokens * kOut);
    run(kPlain, Buffer::of(x.data(), kWidth), norm.data(), Buffer::of(turns.data(), kRotary),
        reinterpret_cast<std::byte*>(cache.data()), Buffer::of(entered.data(), kQkv),
        Buffer::of(wanted.data(), kOut));
    const Buffer y = Buffer::of(bench_.make<float>(wanted.size()), kOut),
                 heads = Buffer::of(bench_.make<float>(entered.size()), kQkv);
    ASSERT_TRUE(bench_.device().start_profile().ok());
    run(there_, put_rows(x, kWidth), put(norm), put_rows(turns, kRotary),
        bench_.make<std::byte>(2 * layout.block_bytes()), heads, y);
    const auto launched = bench_.device().end_profile();
    ASSERT_TRUE(launched);
    ASSERT_TRUE(ops_.take_status().ok());
    expect_near(bench_.get(floats(y), wanted.size()), wanted);
    expect_near(bench_.get(floats(heads), entered.size()), entered);
    const bool turned = std::ranges::any_of(
        *launched, [](const auto& line) { return std::string_view(line.kernel) == "turn_heads"; });
    EXPECT_EQ(turned, !how.one_kernel);
  }
}

// Rows normed for one product serve the next one, until they change.
TEST_F(DeviceOpsTest, ANormIsComputedOnceForAllWhoReadIt) {
  const std::vector<float> weight = some(2, 8 * kWidth), norm = some(3, kWidth);
  const TensorView view = {DType::f32, {8, kWidth}, reinterpret_cast<const std::byte*>(weight.data())};
  const auto run = [&](const KernelContext& c, const Buffer& x, const float* norms, const Buffer& y) {
    const auto packed = PackedLinear::pack(c, LinearType::float32, std::span(&view, 1));
    ASSERT_TRUE(packed);
    LinearInput input = LinearInput::rows(x);
    input.op = LinearInput::Op::rms_norm;
    input.weight = norms;
    for (const std::int64_t column : {0, 8}) linear(c, *packed, input, 1, y.at(0, column));
    scale_rows(c, {1, kWidth / 2}, 3, x);
    linear(c, *packed, input, 1, y.at(0, 16));
  };
  const std::vector<float> x = some(1, kWidth);
  std::vector<float> here = x, wanted(24);
  run(kPlain, Buffer::of(here.data(), kWidth), norm.data(), Buffer::of(wanted.data(), 24));
  const Buffer y = Buffer::of(bench_.make<float>(24), 24);
  const Buffer there = put_rows(x, kWidth);
  const float* const norms = put(norm);
  ASSERT_TRUE(bench_.device().start_profile().ok());
  run(there_, there, norms, y);
  ASSERT_TRUE(bench_.device().synchronize(bench_.stream()).ok());
  const auto launched = bench_.device().end_profile();
  ASSERT_TRUE(launched && ops_.take_status().ok());
  expect_near(bench_.get(floats(y), 24), wanted);
  for (const device::KernelTime& line : *launched)
    if (std::string_view(line.kernel) == "rms_norm") EXPECT_EQ(line.launches, 2);
}

TEST_F(DeviceOpsTest, MixturesAreTheReferences) {
  constexpr std::int64_t kExperts = 6, kInner = 12;
  const std::vector<float> scales = {1, 2, 0.5f, 1.5f, 1, 3}, correction = {0, 1, 0, -1, 0, 0.5f};
  const std::vector<float> weights = random_floats(1, kExperts * 3 * kInner * kWidth, 0.3f),
                           bias = some(2, 2 * kInner), logits = some(3, 40 * kExperts),
                           x = some(4, 40 * kWidth);
  struct Case {
    RouterScore score = RouterScore::softmax;
    bool gated = true, weigh_input = false, own = false;
    std::int64_t rows = 40;
  };
  for (const Case& how :
       {Case{}, Case{.rows = 1}, Case{.gated = false}, Case{.weigh_input = true}, Case{.own = true},
        Case{.score = RouterScore::sparse_mixer}, Case{.score = RouterScore::sparse_mixer, .rows = 1}}) {
    const auto run = [&](const KernelContext& c, const Buffer& scores, const float* own_correction,
                         const float* own_scales, const std::function<Buffer(std::int64_t)>& make,
                         const Buffer& y) {
      std::vector<PackedLinear> first, second;
      const auto* next = weights.data();
      const auto take = [&](std::int64_t rows, std::int64_t columns) {
        const TensorView view = {DType::f32, {rows, columns}, reinterpret_cast<const std::byte*>(next)};
        next += rows * columns;
        return view;
      };
      for (std::int64_t i = 0; i < kExperts; ++i) {
        std::vector<TensorView> in = {take(kInner, kWidth)};
        if (how.gated) in.push_back(take(kInner, kWidth));
        if (on_device(c)) ops_.continue_series(0, kExperts);
        first.push_back(*PackedLinear::pack(c, LinearType::float32, in,
                                            {bias.begin(), bias.begin() + kInner * std::ssize(in)},
                                            how.gated ? LinearForm::gated : LinearForm::stacked));
        const std::vector<TensorView> out = {take(kWidth, kInner)};
        if (on_device(c)) ops_.continue_series(1, kExperts);
        second.push_back(*PackedLinear::pack(c, LinearType::float32, out));
      }
      MixtureArgs args = {.routing = {.score = how.score, .num_experts = kExperts, .per_token = 2},
                          .weigh_input = how.weigh_input,
                          .first = first,
                          .second = second};
      if (how.own) {
        args.correction = {own_correction, correction.size()};
        args.expert_scales = {own_scales, scales.size()};
      }
      args.before_sum = [&] {
        scale_rows(c, {how.rows, kWidth}, 2, y);
        return ok_status();
      };
      const Buffer scratch = make(how.rows * mixture_scratch(args));
      EXPECT_TRUE(mixture(c, args, scores, LinearInput::rows(y), how.rows, scratch, true, y).ok());
    };
    std::vector<float> wanted(x.begin(), x.begin() + how.rows * kWidth), scratch;
    run(
        kPlain, Buffer::of(logits.data(), kExperts), correction.data(), scales.data(),
        [&](std::int64_t count) {
          scratch.resize(static_cast<std::size_t>(count));
          return Buffer::of(scratch.data(), 0);
        },
        Buffer::of(wanted.data(), kWidth));
    const Buffer y = put_rows({x.begin(), x.begin() + how.rows * kWidth}, kWidth);
    run(
        there_, put_rows(logits, kExperts), put(correction), put(scales),
        [&](std::int64_t count) {
          return Buffer::of(bench_.make<float>(static_cast<std::size_t>(count)), 0);
        },
        y);
    const Status status = ops_.take_status();
    ASSERT_TRUE(status.ok()) << status.message();
    std::vector<float> made = bench_.get(floats(y), wanted.size());
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], wanted[i], 1e-4 * (1 + std::fabs(wanted[i]))) << i;
  }
}

}  // namespace
}  // namespace pagoda
