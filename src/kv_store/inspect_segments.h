#pragma once
// inspect_segments(): what a folder of segments holds, without changing it; also while a server writes it,
// whose newest rows may then show as torn. Threads: any.
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
    std::int64_t damaged_rows = 0;  // whose checksum is wrong; if they were checked
  };
  std::vector<Model> models;  // the most bytes first
  std::int64_t files = 0, file_bytes = 0;
  std::int64_t torn_bytes = 0;  // that belong to nothing whole: removed when a server opens the folder
};

enum class InspectDepth { headers, every_byte };
Result<KvContents> inspect_segments(const FileLayer& files, InspectDepth depth);

}  // namespace pagoda
