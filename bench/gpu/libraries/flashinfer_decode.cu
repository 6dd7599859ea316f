// Decode attention by FlashInfer's kernel for CUDA cores and its planner.
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/attention/variants.cuh>

#include "flashinfer_tables.cuh"

namespace pagoda::device {
namespace {

using Bf16 = __nv_bfloat16;
using Params = flashinfer::BatchDecodeParams<Bf16, Bf16, Bf16, std::int32_t>;
using Variant = flashinfer::DefaultAttention<false, false, false, false>;
constexpr auto kPlain = flashinfer::PosEncodingMode::kNone;

class Decode final : public LibraryLaunch {
 public:
  Status plan(const LibraryAttention& args) {
    PAGODA_RETURN_IF_ERROR(tables_.put(args));
    const std::int64_t head = std::int64_t{args.block_size} * kHead;
    const std::int64_t strides[] = {args.block_elements, head, kHead};
    auto* const cache = static_cast<Bf16*>(const_cast<void*>(args.cache));
    params_ = Params(static_cast<Bf16*>(const_cast<void*>(args.q)), nullptr,
                     {static_cast<std::uint32_t>(args.kv_heads), static_cast<std::uint32_t>(args.block_size),
                      kHead, static_cast<std::uint32_t>(args.sequences), flashinfer::QKVLayout::kHND, cache,
                      cache + args.kv_heads * head, strides, tables_.blocks, tables_.starts, tables_.last},
                     static_cast<Bf16*>(args.out), nullptr, nullptr, static_cast<std::uint32_t>(args.heads),
                     args.q_stride, kHead, -1, 0, args.scale, 1, 1e4f);
    switch (args.heads / args.kv_heads) {
      case 1:
        return plan_work<1>(args);
      case 4:
        return plan_work<4>(args);
      case 8:
        return plan_work<8>(args);
      default:
        return unimplemented("FlashInfer's decode of so many query heads for a KV head");
    }
  }
  Status run() override {
    return cuda_status(flashinfer::BatchDecodeWithPagedKVCacheDispatched<kHead, kPlain, Variant, Params>(
                           params_, values_, sums_, false, nullptr),
                       "FlashInfer's decode");
  }

 private:
  template <std::uint32_t kGroup>
  Status plan_work(const LibraryAttention& args) {
    flashinfer::DecodePlanInfo info;
    const auto estimate =
        flashinfer::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<kGroup, kHead, kPlain, Variant,
                                                                        Params>;
    PAGODA_RETURN_IF_ERROR(
        cuda_status(flashinfer::DecodePlan<kHead, kPlain, Variant, Params>(
                        tables_.floats.get(), kFloatBytes, tables_.numbers.get(), tables_.pinned.get(),
                        kNumberBytes, info, tables_.starts_here.data(),
                        static_cast<std::uint32_t>(args.sequences), static_cast<std::uint32_t>(args.heads),
                        static_cast<std::uint32_t>(args.block_size), false, nullptr, estimate),
                    "FlashInfer's plan"));
    params_.padded_batch_size = static_cast<std::uint32_t>(info.padded_batch_size);
    params_.partition_kv = info.split_kv;
    params_.request_indices = tables_.at(info.request_indices_offset);
    params_.kv_tile_indices = tables_.at(info.kv_tile_indices_offset);
    params_.o_indptr = tables_.at(info.o_indptr_offset);
    params_.kv_chunk_size_ptr = tables_.at(info.kv_chunk_size_ptr_offset);
    if (info.split_kv) {
      auto* const floats = static_cast<char*>(tables_.floats.get());
      values_ = reinterpret_cast<Bf16*>(floats + info.v_offset);
      sums_ = reinterpret_cast<float*>(floats + info.s_offset);
    }
    return ok_status();
  }

  FlashInferTables tables_;
  Params params_;
  Bf16* values_ = nullptr;
  float* sums_ = nullptr;
};

}  // namespace

Planned flashinfer_decode(const LibraryAttention& args) { return planned<Decode>(args); }

}  // namespace pagoda::device
