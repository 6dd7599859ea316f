#pragma once
// RequestAdapter: the low-rank adapter (LoRA) that a request uses. AdapterCatalog: the adapters that requests
// can name. An adapter affects only the rows of its own requests; requests with other adapters, or with none,
// run in the same batches. Not covered: adapters merged into the model at start
// (models/weights/adapted_weights.h), and the computation itself (models/). Invariant: an id is never reused
// within a process, so K/V stored under an id belong to one adapter. Source: arXiv 2106.09685, 2310.18547.
// Threads: any.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

enum class AdapterId : std::int32_t {};  // from 1
inline constexpr AdapterId kNoAdapter{};

// The weights stay in memory while a reference to the adapter exists.
struct RequestAdapter {
  virtual ~RequestAdapter() = default;

  AdapterId id = kNoAdapter;
  std::string name;      // as requests name it
  std::string path;      // the adapter's folder or file
  std::string identity;  // names the content; K/V that outlive the process are keyed by it
  std::int32_t rank = 0;
};

class AdapterCatalog {
 public:
  using Handle = std::shared_ptr<const RequestAdapter>;

  virtual ~AdapterCatalog() = default;
  virtual Handle find(std::string_view name) const = 0;  // null: not found
  virtual std::vector<Handle> list() const = 0;          // in load order
  // May take seconds. already_exists: an adapter of this name is loaded and `replace` is false. not_found,
  // unimplemented, corrupt_data: a fault in the adapter's files. resource_exhausted: the limit on loaded
  // adapters is reached.
  virtual Result<Handle> load(const std::string& name, const std::string& path, bool replace) = 0;
  // not_found: no adapter has this name. Requests that already reference the adapter continue.
  virtual Status unload(std::string_view name) = 0;
};

}  // namespace pagoda
