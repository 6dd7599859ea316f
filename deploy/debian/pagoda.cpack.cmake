# CPack configuration of the .deb: its files are a tree laid out by script/package, its metadata is below.
#   PAGODA_TREE=DIR PAGODA_VERSION=N cpack --config FILE -B OUTPUT
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pagoda)
set(CPACK_PACKAGE_FILE_NAME pagoda)
set(CPACK_SYSTEM_NAME Linux)
set(CPACK_TOPLEVEL_TAG Linux)
set(CPACK_PACKAGE_VERSION $ENV{PAGODA_VERSION})
set(CPACK_PACKAGE_CONTACT "Pagoda <noreply@pagoda.invalid>")
set(CPACK_INSTALLED_DIRECTORIES "$ENV{PAGODA_TREE};/")
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_STRIP_FILES OFF)  # they are stripped already
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libedit2)  # line editing in `pagoda chat`
set(CPACK_DEBIAN_PACKAGE_SUGGESTS libzmq5)     # --kv-events-config
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/conffiles)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM server with a paged KV cache")
set(CPACK_PACKAGE_DESCRIPTION "Pagoda serves large language models on the CPU, with the protocols of
OpenAI, Anthropic and Ollama, from one program. Requests share a KV cache
of blocks, as PagedAttention has it, and are scheduled step by step.
.
The service runs as a user of its own; its flags stand in
/etc/pagoda/pagoda.yaml.")
