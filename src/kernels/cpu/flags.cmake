# The files written for one instruction set, and only they, are compiled for it: what they define is
# static, so no such instruction reaches code that runs elsewhere.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  file(GLOB avx512_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cpu/*_avx512.cc)
  file(GLOB avx2_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cpu/*_avx2.cc)
  file(GLOB amx_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cpu/*_amx.cc)
  set(avx512_options
    "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni;-mavx512bf16;-mavx512vbmi;-mgfni;-mavx2;-mfma;-mf16c;-mprfchw;-mprefer-vector-width=512")
  set_source_files_properties(${avx512_sources} PROPERTIES COMPILE_OPTIONS "${avx512_options}")
  set_source_files_properties(${amx_sources} PROPERTIES COMPILE_OPTIONS "${avx512_options};-mamx-tile;-mamx-bf16;-mamx-int8")
  set_source_files_properties(${avx2_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mprfchw")
  # The precompiled headers are for any processor.
  set_source_files_properties(${avx512_sources} ${amx_sources} ${avx2_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endif()
