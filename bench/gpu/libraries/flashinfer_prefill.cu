// Attention of prompts by FlashInfer's kernel for Hopper over a paged cache, and its planner.
#include <flashinfer/attention/hopper/attention_updater.cuh>
#include <flashinfer/attention/hopper/default_params.cuh>
#include <flashinfer/attention/hopper/prefill_sm90.cuh>
#include <flashinfer/attention/hopper/variant_helper.cuh>
#include <flashinfer/attention/hopper/variants.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <flashinfer/cutlass_utils.cuh>
#include <flashinfer/layout.cuh>
#include <flashinfer/math.cuh>

#include "flashinfer_tables.cuh"

namespace pagoda::device {
namespace {

using Element = cutlass::bfloat16_t;
using Params = flashinfer::BatchPrefillPagedParams<Element, Element, Element, std::int32_t>;

class Prefill final : public LibraryLaunch {
 public:
  Status plan(const LibraryAttention& args) {
    PAGODA_RETURN_IF_ERROR(tables_.put(args));
    std::vector<std::int32_t> rows, lengths(static_cast<std::size_t>(args.sequences), args.context);
    for (std::int32_t i = 0; i <= args.sequences; ++i) rows.push_back(i * args.context);
    flashinfer::PrefillPlanSM90Info info;
    const auto all = static_cast<std::uint32_t>(rows.back());
    PAGODA_RETURN_IF_ERROR(
        cuda_status(flashinfer::PrefillSM90Plan<std::int32_t>(
                        tables_.floats.get(), kFloatBytes, tables_.numbers.get(), tables_.pinned.get(),
                        kNumberBytes, info, rows.data(), tables_.starts_here.data(), lengths.data(), all,
                        static_cast<std::uint32_t>(args.sequences), static_cast<std::uint32_t>(args.heads),
                        static_cast<std::uint32_t>(args.kv_heads), kHead, kHead,
                        static_cast<std::uint32_t>(args.block_size), true, false, sizeof(Element), nullptr),
                    "FlashInfer's plan"));
    if (info.same_schedule_for_all_heads) return unimplemented("FlashInfer's prefill of so many rows");
    auto* const cache = static_cast<Element*>(const_cast<void*>(args.cache));
    const std::int64_t head = std::int64_t{args.block_size} * kHead;
    params_.q_ptr = static_cast<Element*>(const_cast<void*>(args.q));
    params_.k_ptr = cache;
    params_.v_ptr = cache + args.kv_heads * head;
    params_.o_ptr = static_cast<Element*>(args.out);
    params_.q_stride_n = args.q_stride;
    params_.o_stride_n = std::int64_t{args.heads} * kHead;
    params_.q_stride_h = params_.o_stride_h = params_.k_stride_n = params_.v_stride_n = kHead;
    params_.k_stride_h = params_.v_stride_h = head;
    params_.k_page_stride = params_.v_page_stride = args.block_elements;
    params_.nnz_qo = all;
    params_.num_qo_heads = args.heads;
    params_.num_kv_heads = args.kv_heads;
    params_.group_size = args.heads / args.kv_heads;
    params_.page_size = args.block_size;
    params_.window_left = -1;
    params_.causal = true;
    params_.additional_params.sm_scale = args.scale;
    params_.kv_indices = tables_.blocks;
    params_.qo_tile_indices = tables_.at(info.qo_tile_indices_offset);
    params_.qo_indptr = tables_.at(info.qo_indptr_offset);
    params_.kv_indptr = tables_.at(info.kv_indptr_offset);
    params_.qo_lens = tables_.at(info.qo_len_offset);
    params_.kv_lens = tables_.at(info.kv_len_offset);
    params_.head_indices = tables_.at(info.head_indices_offset);
    params_.work_indptr = tables_.at(info.work_indptr_offset);
    params_.batch_indices = tables_.at(info.batch_indices_offset);
    return ok_status();
  }
  Status run() override {
    return cuda_status(
        flashinfer::BatchPrefillWithPagedKVCacheDispatched<kHead, kHead, flashinfer::MaskMode::kCausal, false,
                                                           false, flashinfer::StandardAttention, Params>(
            params_, false, nullptr),
        "FlashInfer's prefill");
  }

 private:
  FlashInferTables tables_;
  Params params_ = {};
};

}  // namespace

Planned flashinfer_prefill(const LibraryAttention& args) { return planned<Prefill>(args); }

Status synchronize_libraries() {
  return cuda_status(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

}  // namespace pagoda::device
