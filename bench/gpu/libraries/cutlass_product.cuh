#pragma once
// A product by CUTLASS's kernels for Hopper, with persistent tiles and a fixed order along k. With kSwapped
// it computes y^T, so that few rows are the narrow side of a tile.
#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include "cuda_memory.cuh"
#include "library_kernels.h"

namespace pagoda::device {

template <class Gemm>
class CutlassLaunch final : public LibraryLaunch {
 public:
  static Planned plan(const typename Gemm::Arguments& args, CudaMemory scales = nullptr) {
    auto launch = std::make_unique<CutlassLaunch>();
    launch->scales_ = std::move(scales);
    const std::size_t bytes = Gemm::get_workspace_size(args);
    launch->workspace_ = cuda_memory(bytes);
    if (bytes > 0 && launch->workspace_ == nullptr) return resource_exhausted("no memory for CUTLASS");
    PAGODA_RETURN_IF_ERROR(check(Gemm::can_implement(args), "can_implement"));
    PAGODA_RETURN_IF_ERROR(check(launch->gemm_.initialize(args, launch->workspace_.get()), "initialize"));
    return std::unique_ptr<LibraryLaunch>(std::move(launch));
  }
  Status run() override { return check(gemm_.run(), "run"); }

 private:
  static Status check(cutlass::Status status, const char* call) {
    return status == cutlass::Status::kSuccess
               ? ok_status()
               : internal_error(std::string("CUTLASS: ") + call + ": " + cutlassGetStatusString(status));
  }
  Gemm gemm_;
  CudaMemory workspace_, scales_;
};

template <class Element, class Tile, class Cluster, class Mainloop, class Epilogue, bool kSwapped>
struct CutlassProduct {
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;
  using Out = std::conditional_t<kSwapped, Column, Row>;
  static constexpr int kAlignment = 16 / sizeof(Element);
  using Store = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, Out, 4, float, Out, 4,
      Epilogue>::CollectiveOp;
  using Multiply = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, Row, kAlignment, Element, Column,
      kAlignment, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Store::SharedStorage))>,
      Mainloop>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Multiply, Store,
                                                      cutlass::gemm::PersistentScheduler>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  static Planned plan(const LibraryProduct& args) {
    const int m = kSwapped ? args.n : args.rows, n = kSwapped ? args.rows : args.n, k = args.k;
    const auto stride = [](auto kind, int rows, int columns) {
      return cutlass::make_cute_packed_stride(kind, {rows, columns, 1});
    };
    const auto* const a = static_cast<const Element*>(kSwapped ? args.weight : args.x);
    const auto* const b = static_cast<const Element*>(kSwapped ? args.x : args.weight);
    return CutlassLaunch<Gemm>::plan(
        {cutlass::gemm::GemmUniversalMode::kGemm,
         {m, n, k, 1},
         {a, stride(typename Kernel::StrideA{}, m, k), b, stride(typename Kernel::StrideB{}, n, k)},
         {{1.0f, 0.0f},
          nullptr,
          stride(typename Kernel::StrideC{}, m, n),
          args.y,
          stride(typename Kernel::StrideD{}, m, n)}});
  }
};

}  // namespace pagoda::device
