#pragma once
// LoadedAdapters: the catalog of --enable-lora: opens an adapter's files, has AdapterSet check and keep its
// factors, and names its content by a digest of every number and scale in it, so that K/V of its outlive the
// process and go to other servers, and no others are taken for it. Names are texts for people, never part of
// a path. One adapter is loaded at a time. Threads: any; find() and list() do not wait for load().
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

  // Names of the model, which no adapter may have. Before anything is loaded.
  void set_model_names(std::vector<std::string> names) { model_names_ = std::move(names); }

  // As AdapterSet.
  std::int64_t loaded_bytes() const { return set_->loaded_bytes(); }
  std::int64_t most_bytes(std::int32_t count, bool others_may_come) const {
    return set_->most_bytes(count, others_may_come);
  }
  void set_memory(MemoryBudget& memory, MemoryBudget::AccountId account) {
    set_->set_memory(memory, account);
  }

  Handle find(std::string_view name) const override { return set_->find(name); }
  std::vector<Handle> list() const override { return set_->list(); }
  // As AdapterCatalog; invalid_argument: the name, or the adapter is none of this model.
  Result<Handle> load(const std::string& name, const std::string& path, bool replace) override;
  Status unload(std::string_view name) override;

 private:
  Status check_name(const std::string& name, bool replace) const;

  const std::shared_ptr<AdapterSet> set_;
  const HubPaths hub_;
  std::vector<std::string> model_names_;
  std::mutex loading_;  // held by whoever changes the list
};

// The combinations that cannot work, naming the flags; and the settings that have no effect, in the log.
Status check_lora_flags(const EngineFlags& flags);

// A digest of all that an adapter changes, wherever it lies. corrupt_data: its file was changed meanwhile.
Result<std::string> adapter_digest(const Adapter& adapter);

}  // namespace pagoda
