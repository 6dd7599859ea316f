#pragma once
// RequestAdapter: a low-rank adapter (LoRA) that a request is computed with, and AdapterCatalog: those that
// can be asked for, by name. An adapter adds to the products of a request's own rows alone; requests with
// others, or with none, share its batches. Not adapters that are merged into the model at start
// (models/weights/adapted_weights.h), and not the sums (models/). Invariant: an id is never given twice in a
// process, so that K/V kept under it mean one adapter. Source: arXiv 2106.09685, 2310.18547. Threads: any.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

enum class AdapterId : std::int32_t {};  // from 1 on
inline constexpr AdapterId kNoAdapter{};

// Its weights stay in memory while anyone holds it.
struct RequestAdapter {
  virtual ~RequestAdapter() = default;

  AdapterId id = kNoAdapter;
  std::string name;      // as requests name it
  std::string path;      // its folder or file
  std::string identity;  // names its content: K/V that outlive the process are kept under it
  std::int32_t rank = 0;
};

class AdapterCatalog {
 public:
  using Handle = std::shared_ptr<const RequestAdapter>;

  virtual ~AdapterCatalog() = default;
  virtual Handle find(std::string_view name) const = 0;  // null: there is none
  virtual std::vector<Handle> list() const = 0;          // in the order in which they were loaded
  // May take seconds. already_exists: one of this name is loaded, and `replace` is false; not_found,
  // unimplemented, corrupt_data: the adapter, by its file's fault; resource_exhausted: as many are loaded as
  // may be.
  virtual Result<Handle> load(const std::string& name, const std::string& path, bool replace) = 0;
  // not_found: none has this name. Requests that hold it go on.
  virtual Status unload(std::string_view name) = 0;
};

}  // namespace pagoda
