#include "cli/assembly/adapter_catalog.h"

#include <algorithm>
#include <cstdio>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "kv_store/fingerprint.h"
#include "loader/printable.h"
#include "tensor/dtype.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

Status bad_name(std::string message) { return invalid_argument(std::move(message)).with_param("lora_name"); }

void add_tensor(Fingerprint& out, std::string_view part, const TensorView& tensor) {
  std::string described = concat(part, " ", dtype_info(tensor.dtype).name);
  for (const std::int64_t size : tensor.shape) described += concat(" ", size);
  out.add(described, stored_bytes(tensor));
}

}  // namespace

Result<std::string> adapter_digest(const Adapter& adapter) {
  Fingerprint out;
  out.add("format", adapter.format() == ModelFormat::gguf ? adapter.architecture() : "PEFT");
  out.add("tied", adapter.keeps_tied_head() ? "1" : "0");
  for (const auto& [name, change] : adapter.changes()) {
    char scale[40];
    std::snprintf(scale, sizeof scale, "%a", static_cast<double>(change.scale));
    out.add(name, scale);
    const auto add = [&](std::string_view part, const std::optional<TensorView>& tensor) {
      if (tensor) add_tensor(out, part, *tensor);
    };
    add("whole", change.whole);
    if (change.left) add_tensor(out, change.left->transposed ? "left, turned" : "left", change.left->stored);
    if (change.right)
      add_tensor(out, change.right->transposed ? "right, turned" : "right", change.right->stored);
    add("sum", change.sum);
    add("lengths", change.row_lengths);
  }
  if (!adapter.unchanged()) return corrupt_data("the adapter's files were changed while they were read");
  return hex(out.finish());
}

Status LoadedAdapters::check_name(const std::string& name, bool replace) const {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
  if (name.empty() || name.size() > kMaxNameBytes || !is_valid_utf8(name) ||
      std::ranges::any_of(name, is_control))
    return bad_name(concat("An adapter needs a name of 1 to ", kMaxNameBytes,
                           " bytes of UTF-8, without control characters."));
  if (std::ranges::find(model_names_, name) != model_names_.end())
    return bad_name(concat("'", name, "' is a name of the model itself."));
  if (!replace && find(name) != nullptr)
    return already_exists(concat("An adapter with the name '", name, "' is loaded.")).with_param("lora_name");
  return ok_status();
}

Result<AdapterCatalog::Handle> LoadedAdapters::load(const std::string& name, const std::string& path,
                                                    bool replace) {
  std::lock_guard loading(loading_);
  PAGODA_RETURN_IF_ERROR(check_name(name, replace));
  PAGODA_ASSIGN_OR_RETURN(const Adapter adapter, Adapter::open(path, 1, hub_));
  PAGODA_ASSIGN_OR_RETURN(std::string digest, adapter_digest(adapter));
  return set_->add(name, adapter, replace ? AdapterSet::IfLoaded::replace : AdapterSet::IfLoaded::refuse,
                   std::move(digest));
}

Status LoadedAdapters::unload(std::string_view name) {
  std::lock_guard loading(loading_);
  if (!set_->remove(name)) return not_found(concat("No adapter has the name '", printable(name), "'."));
  return ok_status();
}

Status check_lora_flags(const EngineFlags& flags) {
  const LoraFlags& lora = flags.lora;
  if (!lora.enable) {
    if (!lora.modules.empty()) return invalid_argument("--lora-modules needs --enable-lora");
    if (lora.max_loras || lora.max_cpu_loras)
      log_warning("start", "--max-loras and --max-cpu-loras have no effect without --enable-lora");
    return ok_status();
  }
  if (lora.max_loras && lora.max_cpu_loras && *lora.max_cpu_loras < *lora.max_loras)
    return invalid_argument(concat("--max-cpu-loras ", *lora.max_cpu_loras, " is less than --max-loras ",
                                   *lora.max_loras, ": an adapter that is computed with is loaded"));
  if (std::ssize(lora.modules) > lora.max_loaded())
    return invalid_argument(concat("--lora-modules: ", lora.modules.size(), " adapters, but ",
                                   lora.max_loaded(), " may be loaded; see --max-cpu-loras"));
  if (flags.tensor_parallel_size > 1)
    return invalid_argument(
        "--enable-lora needs --tensor-parallel-size 1; --lora merges an adapter at start");
  return ok_status();
}

}  // namespace pagoda
