// GgufFile: its metadata by key, and its kind.
#include <limits>

#include "base/strings.h"
#include "loader/gguf.h"
#include "loader/printable.h"

namespace pagoda {

namespace {
template <class T>
const T* get(const std::map<std::string, GgufValue, std::less<>>& metadata, std::string_view key) {
  const auto entry = metadata.find(key);
  return entry == metadata.end() ? nullptr : std::get_if<T>(&entry->second);
}
}  // namespace

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  if (const auto* value = get<std::int64_t>(metadata_, key)) return *value;
  if (const auto* value = get<std::uint64_t>(metadata_, key)) {
    if (*value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return static_cast<std::int64_t>(*value);
    }
  }
  return std::nullopt;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  if (const auto* value = get<double>(metadata_, key)) return *value;
  if (const std::optional<std::int64_t> value = integer(key)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  if (const auto* value = get<bool>(metadata_, key)) return *value;
  return std::nullopt;
}

const std::string* GgufFile::string(std::string_view key) const { return get<std::string>(metadata_, key); }

const GgufArray* GgufFile::array(std::string_view key) const {
  const auto* value = get<std::shared_ptr<GgufArray>>(metadata_, key);
  return value == nullptr ? nullptr : value->get();
}

Status GgufFile::check_is_model() const {
  if (is_adapter()) {
    const std::string *kind = string("adapter.type"), *of = string("general.base_model.0.name");
    return invalid_argument(concat("the file is an adapter (", kind != nullptr ? printable(*kind) : "LoRA",
                                   ")", of != nullptr ? concat(" of ", printable(*of)) : "",
                                   ", not a model: name its model, and the adapter with --lora"));
  }
  const auto not_the_model = [](std::string_view what) {
    return unimplemented(concat("the file is ", what, ", not the model: give the model's own .gguf file"));
  };
  if (is_importance_matrix()) return not_the_model("an importance matrix (imatrix) for quantising a model");
  const std::string* const own = string("general.architecture");
  if (own != nullptr && *own == "clip") return not_the_model("the vision or audio part of a model (mmproj)");
  if (own != nullptr && *own == "controlvector") return not_the_model("a control vector");
  return ok_status();
}

bool GgufFile::is_adapter() const {
  const std::string* const type = string("general.type");
  return type != nullptr && *type == "adapter";
}

bool GgufFile::is_importance_matrix() const {
  const std::string* const type = string("general.type");
  return type != nullptr && *type == "imatrix";
}

}  // namespace pagoda
