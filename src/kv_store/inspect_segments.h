#pragma once
// inspect_segments(): reports the contents of a folder of segments without changing it. It may run while a
// server is writing the folder; the newest rows may then be counted as torn. Threads: any.
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "kv_store/file_layer.h"
#include "kv_store/kv_key.h"

namespace pagoda {

struct KvContents {
  struct Model {
    std::string label;
    KvDigest fingerprint{};
    std::int64_t rows = 0, tokens = 0, bytes = 0;
    std::int64_t damaged_rows = 0;  // rows with a wrong checksum; 0 at InspectDepth::headers
  };
  std::vector<Model> models;  // in descending order of bytes
  std::int64_t files = 0, file_bytes = 0;
  std::int64_t torn_bytes = 0;  // bytes outside of complete batches; removed when a server opens the folder
};

enum class InspectDepth { headers, every_byte };
Result<KvContents> inspect_segments(const FileLayer& files, InspectDepth depth);

}  // namespace pagoda
