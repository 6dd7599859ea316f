// Products of e4m3 by e4m3 with one scale per 128 elements of a row of x, and per 128 x 128 of the weights.
#include <cutlass/detail/blockwise_scale_layout.hpp>

#include "cutlass_product.cuh"

namespace pagoda::device {

using namespace cute;

Planned plan_fp8_blocks(const LibraryProduct& args) {
  using Element = cutlass::float_e4m3_t;
  using Row = cutlass::layout::RowMajor;
  using Column = cutlass::layout::ColumnMajor;
  using Tile = Shape<_128, _128, _128>;
  using Cluster = Shape<_1, _1, _1>;
  using Scales = cutlass::detail::Sm90BlockwiseScaleConfig<1, 128, 128>;
  using LayoutA = decltype(Scales::deduce_layoutSFA());
  using LayoutB = decltype(Scales::deduce_layoutSFB());
  using Store = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, Row, 4, float, Row, 4,
      cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
  using Multiply = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, tuple<Row, LayoutA>, 16, Element,
      tuple<Column, LayoutB>, 16, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Store::SharedStorage))>,
      cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8BlockScaledAccum>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Multiply, Store,
                                                      cutlass::gemm::PersistentScheduler>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  const int m = args.rows, n = args.n, k = args.k;
  const LayoutA of_x = Scales::tile_atom_to_shape_SFA(make_shape(m, n, k, 1));
  const LayoutB of_weight = Scales::tile_atom_to_shape_SFB(make_shape(m, n, k, 1));
  const auto first = static_cast<std::size_t>(size(filter_zeros(of_x)));
  const auto second = static_cast<std::size_t>(size(filter_zeros(of_weight)));
  CudaMemory scales = cuda_memory((first + second) * sizeof(float) + 256);
  if (scales == nullptr) return resource_exhausted("no memory for scales");
  PAGODA_RETURN_IF_ERROR(
      cuda_status(cudaMemset(scales.get(), 0x3f, (first + second) * sizeof(float) + 256), "cudaMemset"));
  const auto* const of_rows = static_cast<const float*>(scales.get());
  const auto stride = [](auto kind, int rows, int columns) {
    return cutlass::make_cute_packed_stride(kind, {rows, columns, 1});
  };
  const typename Gemm::Arguments arguments = {
      cutlass::gemm::GemmUniversalMode::kGemm,
      {m, n, k, 1},
      {static_cast<const Element*>(args.x), stride(typename Kernel::StrideA{}, m, k),
       static_cast<const Element*>(args.weight), stride(typename Kernel::StrideB{}, n, k), of_rows, of_x,
       of_rows + (first + 3) / 4 * 4, of_weight},
      {{1.0f, 0.0f},
       nullptr,
       stride(typename Kernel::StrideC{}, m, n),
       args.y,
       stride(typename Kernel::StrideD{}, m, n)}};
  return CutlassLaunch<Gemm>::plan(arguments, std::move(scales));
}

}  // namespace pagoda::device
