#pragma once
// KernelLaunches: each kernel with the launch shape it is made for, in one stream. What the arguments mean is
// in kernels/kernel_args.h. Nothing is launched for no rows. More than 25 public methods, because each is one
// kernel. Errors: the device's. Threads: the device's caller.
#include <optional>

#include "device/kernel_table.h"

namespace pagoda::device {

// Element types: f32, bf16, i8 and fp8 for keys and values; all but i8 for weights. From q4 on they are
// quantised with the numbers of their file (Quantized4, Quantized8, Quantized4K, Quantized5K, Quantized6K,
// Float8, Float8Blocks, Float4, Float4Scaled).
enum class Element : std::uint8_t { f32, bf16, i8, q4, q8, q4_k, q5_k, q6_k, fp8, fp8_blocks, mxfp4, nvfp4 };
constexpr bool is_float8(Element weight) { return weight == Element::fp8 || weight == Element::fp8_blocks; }
// The place of a kernel over such a cache behind that of f32 in kernels.def.
constexpr std::int32_t place_of_cache(Element cache) {
  return cache == Element::fp8 ? 3 : static_cast<std::int32_t>(cache);
}

// Products by warpgroups that are taken unasked, where the device and choices.def have them: of many rows, of
// few columns, and such as take the function between a gate and what it opens. The bits of each are the
// device's to show (bulk_check.h).
struct WarpgroupForms {
  bool bulk = true, narrow = true, gated = true;
  bool operator==(const WarpgroupForms&) const = default;
};

class KernelLaunches {
 public:
  KernelLaunches(Device& device, StreamId stream, const WarpgroupForms& forms = {})
      : device_(device), stream_(stream), forms_(forms) {}

  Status embedding(Element table, const EmbeddingArgs& args, std::int64_t rows);
  Status rms_norm(const NormArgs& args, std::int64_t rows);
  Status layer_norm(const NormArgs& args, std::int64_t rows);
  Status gather_rows(const GatherRowsArgs& args, std::int64_t rows);
  Status round_rows(const RoundRowsArgs& args, std::int64_t rows);
  Status activate(const ActivateArgs& args, std::int64_t rows);
  Status add_rows(const AddRowsArgs& args, std::int64_t rows);
  Status softcap(const SoftcapArgs& args, std::int64_t rows);
  Status linear(Element weight, LinearArgs args);
  // By tiles of bfloat16 products, where supports_product_tiles(); args.rounded has room for
  // rounded_elements(), or for few rows none. All forms give the same bits, which are others than linear()'s.
  // Those from bulk_64 on need a device that has_warpgroups(), and linear_tiles() takes them as
  // WarpgroupForms and choices.def have it; narrow ones are of bf16 alone.
  enum class ProductForm : std::uint8_t {
    few,
    several,
    some,
    wide,
    many,
    bulk_64,
    bulk_128,
    bulk_256,
    narrow_32,
    narrow_48,
    narrow_64,
    narrow_112,
    tall_64,  // narrow ones of more rows
    tall_112
  };
  Status linear_tiles(Element weight, const LinearArgs& args);
  Status linear_tiles(Element weight, LinearArgs args, ProductForm form);
  // A gate, what it opens and their function in one launch, where takes_gated(), whose n is whole slabs: the
  // bits of linear_tiles() and activate(), by a bulk form.
  bool takes_gated(Element weight, Function function, std::int32_t rows) const;
  Status linear_gated(const GatedLinearArgs& args);
  Status linear_gated(const GatedLinearArgs& args, ProductForm form);
  // Products of 8-bit floats by 8-bit floats, on a device that has_warpgroups(), of weights that are fp8 or
  // fp8_blocks, whose k is whole groups of 32. x lies in args.rounded as one of the three below has made it
  // (kernels/float8_args.h), with a scale for each row beside fp8, and for each 128 of it beside fp8_blocks.
  // All forms, of any number of rows, give the same bits (float8_check.h). Of columns and rows of a block:
  enum class Float8Form : std::uint8_t { by_32_64, by_48_64, by_64_64, by_112_64, by_128_128, by_192_128 };
  static constexpr std::size_t kFloat8Forms = 6;
  Status linear_float8(Element weight, const LinearArgs& args);
  Status linear_float8(Element weight, LinearArgs args, Float8Form form);
  static Float8Form float8_form(std::int32_t rows, std::int32_t n);
  Status quantize_rows(const QuantizeRowsArgs& args);
  Status quantize_norm(const QuantizeRowsArgs& args);
  Status quantize_function(const QuantizeRowsArgs& args);
  // Bytes of x in 8-bit floats, and of such in bfloat16, in front of whose scales rows * k of 16 bits lie.
  static std::int64_t float8_input_bytes(Element weight, std::int64_t rows, std::int64_t k);
  static std::int64_t float8_wide_bytes(std::int64_t rows, std::int64_t k, bool blocks);
  // A matrix of linear_few(), for which supports_product_tiles(); `bias` of its n rows, or null.
  struct Matrix {
    Element element = Element::bf16;
    const void* weight = nullptr;
    const float* bias = nullptr;
    std::int32_t n = 0;  // columns of y
  };
  // Products of up to 16 rows in one launch, which is worth having up to few_rows(): with the norm of x, of
  // up to few_norms() rows, and with the function of y; by several matrices of the same k, whose columns
  // follow each other in y, where shares_launches(). The bits are those of launches one by one.
  // args.product's weight, bias and n are not read, and `rounded` is room or null; or has x already, where
  // that is null. Gated: one matrix, whose n is half of its rows.
  Status linear_few(std::span<const Matrix> matrices, FewLinearArgs args);
  // Room for x in bfloat16, as any product by tiles has it.
  static std::int64_t rounded_elements(std::int64_t rows, std::int64_t k);
  static std::int32_t few_rows();
  static std::int32_t few_norms();
  Status route(const RouteArgs& args, std::int64_t rows);
  Status group_pairs(const GroupPairsArgs& args);
  // Both, into args.slots and args.tiles: one launch for a single row.
  Status route_and_group(const RouteArgs& args, std::int64_t rows);
  Status grouped_linear(Element weight, const GroupedLinearArgs& args);
  // By tiles, where supports_product_tiles(); a pair has the bits of linear_tiles().
  Status grouped_tiles(Element weight, const GroupedLinearArgs& args);
  // The same of 8-bit floats by fp8_blocks: of args.codes and their scales, which the launches above have
  // made (QuantizeRowsArgs::wide), with other bits.
  Status grouped_float8(const GroupedLinearArgs& args);
  Status combine(const CombineArgs& args, std::int64_t rows);
  Status rope_and_write(Element cache, const RopeAndWriteArgs& args, std::int64_t rows);
  // Attention of `rows` rows, the same bits both ways: splits side by side (args.splits of them, by way of
  // args.partial and args.tickets), which is for few rows with long contexts; or one after the other.
  Status attend_splits(Element cache, const AttentionArgs& args, std::int64_t rows);
  Status attend_rows(Element cache, const AttentionArgs& args, std::int64_t rows);
  // The same by tiles of matrix products, over caches of bf16, i8 or fp8, where supports_tiles() and
  // supports_tiles_over(); other bits than those of the two above, and the same among each other. A tile's
  // rows are of one sequence, at ascending positions. The two of decode do rope_and_write() in the same
  // launch, where args.write says so, each sequence has one row and finishes_own_heads().
  Status attend_tile_splits(const AttentionArgs& args, std::int64_t rows, Element cache = Element::bf16);
  // A block walks through the context of a row and KV head, for many rows: no args.partial, no args.tickets.
  Status attend_tile_walk(const AttentionArgs& args, std::int64_t rows, Element cache = Element::bf16);
  // The one of the two that is made for so many rows.
  Status attend_tile_decode(const AttentionArgs& args, std::int64_t rows, Element cache = Element::bf16) {
    return walks(args, rows) ? attend_tile_walk(args, rows, cache) : attend_tile_splits(args, rows, cache);
  }
  Status attend_tiles(const AttentionArgs& args, std::int64_t tiles, Element cache = Element::bf16);
  // Another form of it, with the same bits (check_bulk_attention()), where supports_bulk_attention(): tiles
  // of bulk_rows_of_tile() rows.
  Status attend_bulk(const AttentionArgs& args, std::int64_t tiles, Element cache = Element::bf16);
  Status copy_blocks(const CopyBlocksArgs& args, std::int64_t pairs);
  Status fill_in_tokens(const FillInTokensArgs& args);
  Status count_tokens(const CountTokensArgs& args, std::int64_t rows);
  Status edit_logits(const EditLogitsArgs& args, std::int64_t rows);
  Status sample_rows(const SampleRowsArgs& args, std::int64_t rows);
  Status score_rows(const ScoreRowsArgs& args, std::int64_t rows);

  // Whether attend_tile_decode() walks: where there are enough blocks, and contexts of about one length,
  // since the longest one ends last.
  static bool walks(const AttentionArgs& args, std::int64_t rows);
  // The sizes that this program's kernels have of choices.def.
  struct Choice {
    const char* name;
    std::int32_t value;
  };
  static std::span<const Choice> choices();
  // Floats of AttentionArgs::partial.
  static std::int64_t partial_floats(const AttentionArgs& args, std::int64_t rows) {
    return rows * args.num_query_heads * args.splits * partial_line(args.cache.head_size);
  }
  // Heads that the attention kernels support: a block has a warp for each query head of a key-value head, and
  // registers for no more (kernels/attention.cuh).
  static bool supports_heads(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_size) {
    return kv_heads > 0 && query_heads % kv_heads == 0 && query_heads / kv_heads <= kMaxHeadGroup &&
           head_size > 0 && head_size <= kMaxHeadSize;
  }
  static bool supports_tiles(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_size) {
    return supports_heads(query_heads, kv_heads, head_size) && head_size % 8 == 0 && head_size <= 256;
  }
  static bool finishes_own_heads(Element cache, std::int32_t head_size);
  // Whether such a cache's slots begin at multiples of 16 bytes.
  static bool supports_tiles_over(Element cache, const CacheArgs& args);
  // How many rows a tile may have.
  static std::int32_t rows_of_tile(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_size);
  bool supports_bulk_attention(const CacheArgs& cache) const;
  // Whether it is to be taken there unasked (choices.def).
  static bool prefers_bulk_attention();
  static std::int32_t bulk_rows_of_tile(std::int32_t query_heads, std::int32_t kv_heads);
  // Bytes of a row of k weights, whole groups or units of them.
  static std::int64_t row_bytes(Element weight, std::int64_t k);
  // The form by warps that is made for a product of this size; the bulk and the narrow one; and the one of
  // both that is taken, if any is.
  static ProductForm product_form(std::int32_t rows, std::int32_t n);
  static ProductForm bulk_form(std::int32_t rows, std::int32_t n);
  static ProductForm narrow_form(std::int32_t rows, std::int32_t n);
  std::optional<ProductForm> warpgroup_form(Element weight, std::int32_t rows, std::int32_t n) const;
  // Those that choices.def has for products of so many rows, or of fewer.
  static WarpgroupForms forms_up_to(std::int64_t rows);
  // Rows of weights of [n, k] begin at multiples of 16 bytes.
  static bool supports_product_tiles(Element weight, std::int32_t k) {
    return weight == Element::bf16  ? k % 8 == 0
           : weight >= Element::fp8 ? k % 32 == 0
           : weight == Element::q4  ? k % 64 == 0
                                    : weight >= Element::q8 && k % 128 == 0;
  }
  // Whether linear_few() takes them beside matrices of other types.
  static bool shares_launches(Element weight) { return weight < Element::fp8; }
  // Tokens that the kernels of rows of logits support: they count in 21 bits.
  static bool supports_vocabulary(std::int32_t tokens) { return tokens > 0 && tokens < 1 << 21; }
  // Experts that the mixture kernels support: shared memory of a block holds numbers of each expert.
  static bool supports_experts(std::int32_t experts) { return experts > 0 && experts <= 1024; }

 private:
  template <class Args>
  Status put(KernelId id, const LaunchShape& shape, const Args& args) {
    if (shape.grid.x == 0) return ok_status();
    return launch(device_, stream_, kernel(device_, id), shape, args);
  }
  template <class Args>
  Status put(KernelId id, Dim3 grid, Dim3 block, std::uint32_t shared, const Args& args) {
    return put(id, LaunchShape{grid, block, shared}, args);
  }

  bool takes_bulk(Element weight, std::int32_t rows) const;
  bool takes_narrow(Element weight, std::int32_t rows) const;
  Status linear_warpgroups(Element weight, const LinearArgs& args, ProductForm form);
  // Rounds x first where that is worth a launch, and forgets args.rounded where it is not, or there is no
  // room.
  Status round_few(LinearArgs& args, std::int32_t columns);

  Device& device_;
  StreamId stream_;
  WarpgroupForms forms_;
};

}  // namespace pagoda::device
