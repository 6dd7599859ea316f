# Kernels of CUTLASS and FlashInfer (bench/gpu/libraries/), for comparison in the device benches; never in the program.
# script/cuda-libraries fetches the headers. A file takes a minute and up to 4 GB to compile, so only one is compiled at a
# time. They have flags of their own: the libraries trigger the project's warnings, and need NDEBUG to be fast.
option(PAGODA_CUDA_LIBRARIES "Kernels of CUTLASS and FlashInfer beside those of the device benches" OFF)
function(pagoda_add_cuda_libraries target)
  if(NOT PAGODA_CUDA)
    message(FATAL_ERROR "PAGODA_CUDA_LIBRARIES needs PAGODA_CUDA")
  endif()
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/script/cuda-libraries OUTPUT_VARIABLE libraries
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(toolkit "${PAGODA_CUDA_TOOLKIT}")
  if(NOT toolkit)
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/script/cuda OUTPUT_VARIABLE toolkit
                    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  endif()
  # FlashInfer does not compile against the toolkit's own CCCL.
  set(flags -std=c++20 -O3 -DNDEBUG --expt-relaxed-constexpr -gencode arch=compute_90a,code=sm_90a
            -ccbin ${CMAKE_CXX_COMPILER} -w -DPAGODA_CUDA_LIBRARIES -I ${PROJECT_SOURCE_DIR}/src)
  foreach(folder include cccl/libcudacxx/include cccl/cub cccl/thrust cutlass/include cutlass/tools/util/include)
    list(APPEND flags -isystem ${libraries}/${folder})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS cuda_libraries=1)
  set(folder ${PROJECT_SOURCE_DIR}/bench/gpu/libraries)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cu)
  file(GLOB headers CONFIGURE_DEPENDS ${folder}/*.h ${folder}/*.cuh)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${folder}/library_products.cc)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    set(object ${PROJECT_BINARY_DIR}/cuda/${name}.o)
    add_custom_command(
      OUTPUT ${object} ${PROJECT_BINARY_DIR}/cuda/${name}.txt
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/cuda
      COMMAND ${PROJECT_SOURCE_DIR}/tools/cuda_compile ${PROJECT_BINARY_DIR}/cuda/${name}.txt
              ${toolkit}/bin/nvcc ${flags} -Xptxas -v -c ${source} -o ${object}
      DEPENDS ${source} ${headers} ${PROJECT_SOURCE_DIR}/tools/cuda_compile
      JOB_POOL cuda_libraries
      VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    target_sources(${target} PRIVATE ${object})
  endforeach()
  # Users of this target also link pagoda_device, which provides the CUDA runtime. This target does not depend on it, so
  # that it does not wait for the kernels of pagoda_device.
  target_compile_definitions(${target} PUBLIC PAGODA_CUDA_LIBRARIES)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
endfunction()
