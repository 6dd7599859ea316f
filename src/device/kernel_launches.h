#pragma once
// KernelLaunches: launches each kernel with the launch shape it is made for, in one stream. The arguments are
// described in kernels/kernel_args.h. A call with no rows is a no-op. More than 25 public methods, because
// each is one kernel. Errors: the device's. Threads: the device's caller.
#include <optional>

#include "device/kernel_table.h"

namespace pagoda::device {

// Element types: f32, bf16, i8 and fp8 for keys and values; all but i8 for weights. From q4 on, weights are
// quantised with the numbers of their file (Quantized4, Quantized8, Quantized4K, Quantized5K, Quantized6K,
// Float8, Float8Blocks, Float4, Float4Scaled).
enum class Element : std::uint8_t { f32, bf16, i8, q4, q8, q4_k, q5_k, q6_k, fp8, fp8_blocks, mxfp4, nvfp4 };
constexpr bool is_float8(Element weight) { return weight == Element::fp8 || weight == Element::fp8_blocks; }
// In kernels.def: the offset of the kernel for this cache type from the kernel for f32.
constexpr std::int32_t place_of_cache(Element cache) {
  return cache == Element::fp8 ? 3 : static_cast<std::int32_t>(cache);
}

// Products by warpgroups that are chosen automatically where the device and choices.def have them: for many
// rows, for few columns, and with the function between gate and up. Whether the device gives the right bits
// must be tested first (bulk_check.h).
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
  // Products by tiles of bfloat16, where supports_product_tiles(). args.rounded has space for
  // rounded_elements(); for few rows it may be null. All forms give the same bits, which differ from
  // linear()'s. Forms from bulk_64 on require has_warpgroups(); linear_tiles() uses them according to
  // WarpgroupForms and choices.def. Narrow forms are for bf16 only.
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
    tall_64,  // narrow forms with more rows
    tall_112
  };
  Status linear_tiles(Element weight, const LinearArgs& args);
  Status linear_tiles(Element weight, LinearArgs args, ProductForm form);
  // The gate, up and their function in one launch, where takes_gated() and n is whole slabs. Gives the bits
  // of linear_tiles() followed by activate(), by a bulk form.
  bool takes_gated(Element weight, Function function, std::int32_t rows) const;
  Status linear_gated(const GatedLinearArgs& args);
  Status linear_gated(const GatedLinearArgs& args, ProductForm form);
  // Products of 8-bit floats by 8-bit floats, for weights of type fp8 or fp8_blocks, with k a multiple of 32.
  // Requires has_warpgroups(). x is in args.rounded, as written by one of the three functions below
  // (kernels/float8_args.h), with one scale per row for fp8, and one per 128 elements of a row for
  // fp8_blocks. All forms give the same bits for any number of rows (float8_check.h). Forms are named by the
  // columns and rows of a block:
  enum class Float8Form : std::uint8_t { by_32_64, by_48_64, by_64_64, by_112_64, by_128_128, by_192_128 };
  static constexpr std::size_t kFloat8Forms = 6;
  Status linear_float8(Element weight, const LinearArgs& args);
  Status linear_float8(Element weight, LinearArgs args, Float8Form form);
  static Float8Form float8_form(std::int32_t rows, std::int32_t n);
  Status quantize_rows(const QuantizeRowsArgs& args);
  Status quantize_norm(const QuantizeRowsArgs& args);
  Status quantize_function(const QuantizeRowsArgs& args);
  // Bytes of x in 8-bit floats; and of codes in bfloat16, where the scales follow rows * k elements of 16
  // bits.
  static std::int64_t float8_input_bytes(Element weight, std::int64_t rows, std::int64_t k);
  static std::int64_t float8_wide_bytes(std::int64_t rows, std::int64_t k, bool blocks);
  // A matrix for linear_few(), where supports_product_tiles(). `bias` has n elements, or is null.
  struct Matrix {
    Element element = Element::bf16;
    const void* weight = nullptr;
    const float* bias = nullptr;
    std::int32_t n = 0;  // columns of y
  };
  // Products of up to 16 rows in one launch, useful up to few_rows(). Can include the norm of x (up to
  // few_norms() rows) and the function of y. Takes several matrices of the same k where shares_launches();
  // their columns follow each other in y. The bits equal those of separate launches. args.product's weight,
  // bias and n are not read. `rounded` is scratch space or null; if `x` is null, it holds x already. Gated:
  // one matrix, whose n is half of its rows.
  Status linear_few(std::span<const Matrix> matrices, FewLinearArgs args);
  // Space for x in bfloat16, for any product by tiles.
  static std::int64_t rounded_elements(std::int64_t rows, std::int64_t k);
  static std::int32_t few_rows();
  static std::int32_t few_norms();
  Status route(const RouteArgs& args, std::int64_t rows);
  Status group_pairs(const GroupPairsArgs& args);
  // Both, into args.slots and args.tiles; one launch for a single row.
  Status route_and_group(const RouteArgs& args, std::int64_t rows);
  Status grouped_linear(Element weight, const GroupedLinearArgs& args);
  // By tiles, where supports_product_tiles(). A pair has the bits of linear_tiles().
  Status grouped_tiles(Element weight, const GroupedLinearArgs& args);
  // Likewise for 8-bit floats by fp8_blocks: reads args.codes and their scales, as written by the functions
  // above (QuantizeRowsArgs::wide). Gives other bits.
  Status grouped_float8(const GroupedLinearArgs& args);
  Status combine(const CombineArgs& args, std::int64_t rows);
  Status rope_and_write(Element cache, const RopeAndWriteArgs& args, std::int64_t rows);
  // Attention of `rows` rows; both functions give the same bits. attend_splits() computes args.splits splits
  // in parallel, by way of args.partial and args.tickets, for few rows with long contexts; attend_rows()
  // computes them one after the other.
  Status attend_splits(Element cache, const AttentionArgs& args, std::int64_t rows);
  Status attend_rows(Element cache, const AttentionArgs& args, std::int64_t rows);
  // Likewise by tiles of matrix products, over caches of bf16, i8 or fp8, where supports_tiles() and
  // supports_tiles_over(). The bits differ from the two above but are the same for all of these. The rows of
  // a tile belong to one sequence, at ascending positions. The two for decode do rope_and_write() in the same
  // launch if args.write says so, each sequence has one row and finishes_own_heads().
  Status attend_tile_splits(const AttentionArgs& args, std::int64_t rows, Element cache = Element::bf16);
  // One block walks through the context of a row and KV head; for many rows. Uses neither args.partial nor
  // args.tickets.
  Status attend_tile_walk(const AttentionArgs& args, std::int64_t rows, Element cache = Element::bf16);
  // Chooses between the two by the number of rows.
  Status attend_tile_decode(const AttentionArgs& args, std::int64_t rows, Element cache = Element::bf16) {
    return walks(args, rows) ? attend_tile_walk(args, rows, cache) : attend_tile_splits(args, rows, cache);
  }
  Status attend_tiles(const AttentionArgs& args, std::int64_t tiles, Element cache = Element::bf16);
  // Same bits as attend_tiles() (check_bulk_attention()), where supports_bulk_attention(); tiles have
  // bulk_rows_of_tile() rows.
  Status attend_bulk(const AttentionArgs& args, std::int64_t tiles, Element cache = Element::bf16);
  Status copy_blocks(const CopyBlocksArgs& args, std::int64_t pairs);
  Status fill_in_tokens(const FillInTokensArgs& args);
  Status count_tokens(const CountTokensArgs& args, std::int64_t rows);
  Status edit_logits(const EditLogitsArgs& args, std::int64_t rows);
  Status sample_rows(const SampleRowsArgs& args, std::int64_t rows);
  Status score_rows(const ScoreRowsArgs& args, std::int64_t rows);

  // True if attend_tile_decode() walks: if there are enough blocks, and contexts have similar lengths, since
  // the longest one ends last.
  static bool walks(const AttentionArgs& args, std::int64_t rows);
  // The sizes in choices.def with which the kernels of this program are compiled.
  struct Choice {
    const char* name;
    std::int32_t value;
  };
  static std::span<const Choice> choices();
  // Number of floats in AttentionArgs::partial.
  static std::int64_t partial_floats(const AttentionArgs& args, std::int64_t rows) {
    return rows * args.num_query_heads * args.splits * partial_line(args.cache.head_size);
  }
  // True if the attention kernels support these heads: a block has a warp for each query head of a KV head,
  // and registers for no more (kernels/attention.cuh).
  static bool supports_heads(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_size) {
    return kv_heads > 0 && query_heads % kv_heads == 0 && query_heads / kv_heads <= kMaxHeadGroup &&
           head_size > 0 && head_size <= kMaxHeadSize;
  }
  static bool supports_tiles(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_size) {
    return supports_heads(query_heads, kv_heads, head_size) && head_size % 8 == 0 && head_size <= 256;
  }
  static bool finishes_own_heads(Element cache, std::int32_t head_size);
  // True if the slots of such a cache begin at multiples of 16 bytes.
  static bool supports_tiles_over(Element cache, const CacheArgs& args);
  // Maximum number of rows in a tile.
  static std::int32_t rows_of_tile(std::int32_t query_heads, std::int32_t kv_heads, std::int32_t head_size);
  bool supports_bulk_attention(const CacheArgs& cache) const;
  // True if attend_bulk() is chosen automatically where it is supported (choices.def).
  static bool prefers_bulk_attention();
  static std::int32_t bulk_rows_of_tile(std::int32_t query_heads, std::int32_t kv_heads);
  // Bytes of a row of k weights; k is whole groups or units.
  static std::int64_t row_bytes(Element weight, std::int64_t k);
  // The form by warps for a product of this size; the bulk and the narrow form; and the form by warpgroups
  // that linear_tiles() uses, or nullopt.
  static ProductForm product_form(std::int32_t rows, std::int32_t n);
  static ProductForm bulk_form(std::int32_t rows, std::int32_t n);
  static ProductForm narrow_form(std::int32_t rows, std::int32_t n);
  std::optional<ProductForm> warpgroup_form(Element weight, std::int32_t rows, std::int32_t n) const;
  // The forms that choices.def has for products of up to `rows` rows.
  static WarpgroupForms forms_up_to(std::int64_t rows);
  // True if rows of weights of [n, k] begin at multiples of 16 bytes.
  static bool supports_product_tiles(Element weight, std::int32_t k) {
    return weight == Element::bf16  ? k % 8 == 0
           : weight >= Element::fp8 ? k % 32 == 0
           : weight == Element::q4  ? k % 64 == 0
                                    : weight >= Element::q8 && k % 128 == 0;
  }
  // True if linear_few() accepts this type together with matrices of other types.
  static bool shares_launches(Element weight) { return weight < Element::fp8; }
  // True if the kernels for rows of logits support this many tokens: they count in 21 bits.
  static bool supports_vocabulary(std::int32_t tokens) { return tokens > 0 && tokens < 1 << 21; }
  // True if the mixture kernels support this many experts: a block's shared memory holds numbers of each
  // expert.
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
  // Rounds x first if that is worth a launch; otherwise, or if there is no space, clears args.rounded.
  Status round_few(LinearArgs& args, std::int32_t columns);

  Device& device_;
  StreamId stream_;
  WarpgroupForms forms_;
};

}  // namespace pagoda::device
