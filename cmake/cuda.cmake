# The CUDA device (src/device/cuda/), if PAGODA_CUDA is on. nvcc compiles the kernels for two architectures and to PTX,
# which the driver of another GPU translates at the first start. The host compiler compiles the host part. The CUDA
# runtime is linked statically, so that the program starts without a GPU or its driver.
# script/cuda fetches the toolkit; -DPAGODA_CUDA_TOOLKIT=DIR selects another.
option(PAGODA_CUDA "Device code for NVIDIA GPUs" OFF)
set(PAGODA_CUDA_CODE "80;90a" CACHE STRING "Architectures of the device code; 80 comes with PTX")
set(PAGODA_CUDA_TOOLKIT "" CACHE PATH "CUDA toolkit; empty: the one that script/cuda fetches")
set(PAGODA_DEVICE_CHOICES "" CACHE FILEPATH "Another file than src/device/kernels/choices.def")
function(pagoda_add_cuda target)
  set(choices "")
  if(PAGODA_DEVICE_CHOICES)
    configure_file(${PAGODA_DEVICE_CHOICES} ${PROJECT_BINARY_DIR}/choices/device/tuned_choices.def COPYONLY)
    target_compile_definitions(${target} PRIVATE PAGODA_DEVICE_CHOICES)
    target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/choices)
    set(choices -DPAGODA_DEVICE_CHOICES -I ${PROJECT_BINARY_DIR}/choices)
  endif()
  if(NOT PAGODA_CUDA)
    return()
  endif()
  set(toolkit "${PAGODA_CUDA_TOOLKIT}")
  if(NOT toolkit)  # queried at each configure, since the cache folder may have changed
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/script/cuda OUTPUT_VARIABLE toolkit
                    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  endif()
  # The text that the program prints: "sm_80 and sm_90a, PTX for later ones".
  list(TRANSFORM PAGODA_CUDA_CODE PREPEND "sm_" OUTPUT_VARIABLE said)
  list(JOIN said " and " said)
  if("80" IN_LIST PAGODA_CUDA_CODE)
    string(APPEND said ", PTX for later ones")
  endif()
  set(code "")
  foreach(architecture IN LISTS PAGODA_CUDA_CODE)
    if(architecture STREQUAL "80")
      list(APPEND code -gencode arch=compute_80,code=[sm_80,compute_80])
    else()
      list(APPEND code -gencode arch=compute_${architecture},code=sm_${architecture})
    endif()
  endforeach()
  # -fmad=false: as on the host, the compiler must not contract products and sums (kernels/dialect.cuh).
  set(flags -std=c++20 -O3 -fmad=false -ccbin ${CMAKE_CXX_COMPILER} -I ${PROJECT_SOURCE_DIR}/src
            ${code} ${choices} -Werror all-warnings -Xcompiler -fPIC,-Wall,-Werror -Xptxas -v)
  set(kernels ${PROJECT_SOURCE_DIR}/src/device/cuda/kernels.cu)
  set(object ${PROJECT_BINARY_DIR}/cuda/kernels.o)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/*.h ${PROJECT_SOURCE_DIR}/src/device/kernels/*)
  # The output of ptxas for each kernel goes to a file, which tools/cuda_resources compares with the table.
  add_custom_command(
    OUTPUT ${object} ${PROJECT_BINARY_DIR}/cuda/ptxas.txt
    COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/cuda
    COMMAND ${PROJECT_SOURCE_DIR}/tools/cuda_compile ${PROJECT_BINARY_DIR}/cuda/ptxas.txt
            ${toolkit}/bin/nvcc ${flags} -c ${kernels} -o ${object}
    DEPENDS ${kernels} ${sources} ${PAGODA_DEVICE_CHOICES}
            ${PROJECT_SOURCE_DIR}/tools/cuda_compile
    VERBATIM)
  target_sources(${target} PRIVATE ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  target_compile_definitions(${target} PRIVATE PAGODA_CUDA PAGODA_CUDA_ARCHITECTURES="${said}")
  target_include_directories(${target} SYSTEM PRIVATE ${toolkit}/include)
  find_library(cudart cudart_static PATHS ${toolkit}/lib ${toolkit}/lib64
               NO_DEFAULT_PATH NO_CACHE REQUIRED)
  target_link_libraries(${target} PUBLIC ${cudart} Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()
