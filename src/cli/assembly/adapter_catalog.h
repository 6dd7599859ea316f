#pragma once
// LoadedAdapters: the catalog of --enable-lora. It opens an adapter's files, and AdapterSet checks and keeps
// the factors. The identity of an adapter is a digest of all its numbers and scales, so its K/V can outlive
// the process, be sent to other servers, and is never confused with that of another adapter. Names are
// display texts, never part of a path. Adapters are loaded one at a time. Threads: any; find() and list() do
// not wait for load().
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "loader/adapter.h"
#include "models/weights/adapter_set.h"
#include "request/request_adapter.h"

namespace pagoda {

class LoadedAdapters final : public AdapterCatalog {
 public:
  LoadedAdapters(std::shared_ptr<AdapterSet> set, HubPaths hub)
      : set_(std::move(set)), hub_(std::move(hub)) {}

  // The model's names, which no adapter may have. Call before loading any adapter.
  void set_model_names(std::vector<std::string> names) { model_names_ = std::move(names); }

  // As in AdapterSet.
  std::int64_t loaded_bytes() const { return set_->loaded_bytes(); }
  std::int64_t most_bytes(std::int32_t count, bool others_may_come) const {
    return set_->most_bytes(count, others_may_come);
  }
  void set_memory(MemoryBudget& memory, MemoryBudget::AccountId account) {
    set_->set_memory(memory, account);
  }

  Handle find(std::string_view name) const override { return set_->find(name); }
  std::vector<Handle> list() const override { return set_->list(); }
  // As in AdapterCatalog. invalid_argument: a bad name, or an adapter of another model.
  Result<Handle> load(const std::string& name, const std::string& path, bool replace) override;
  Status unload(std::string_view name) override;

 private:
  Status check_name(const std::string& name, bool replace) const;

  const std::shared_ptr<AdapterSet> set_;
  const HubPaths hub_;
  std::vector<std::string> model_names_;
  std::mutex loading_;  // held while the list changes
};

// Returns an error that names the flags if they conflict, and logs the settings that have no effect.
Status check_lora_flags(const EngineFlags& flags);

// A digest of everything that an adapter changes, independent of its path. corrupt_data: its file changed in
// the meantime.
Result<std::string> adapter_digest(const Adapter& adapter);

}  // namespace pagoda
