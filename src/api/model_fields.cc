#include "api/model_fields.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "base/strings.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxEntries = 1024;
constexpr std::int64_t kMaxId = 1 << 30;
constexpr double kMaxScale = 1e6;

// Reads an entry of "lora". Returns the adapter that it chooses; null if none.
AdapterCatalog::Handle read_entry(FieldReader& entry, const ApiContext& context) {
  const std::optional<std::int64_t> id = entry.integer("id", 0, kMaxId);
  const std::optional<double> scale = entry.number("scale", -kMaxScale, kMaxScale);
  if (entry.ok() && !id) entry.fail("id", "is required");
  if (entry.ok() && scale && *scale != 0 && *scale != 1)
    entry.fail("scale", "must be 0 or 1: an adapter is computed as it was made, or not at all");
  if (!entry.ok()) return nullptr;
  const std::vector<AdapterCatalog::Handle> all = context.adapters->list();
  const auto found = std::ranges::find_if(all, [&](const auto& each) { return llama_id(*each) == *id; });
  if (found == all.end()) {
    entry.fail("id", "is not that of a loaded adapter; see GET /lora-adapters");
    return nullptr;
  }
  return scale.value_or(0) == 1 ? *found : nullptr;
}

}  // namespace

Result<AdapterCatalog::Handle> read_model(FieldReader& fields, const ApiContext& context) {
  const std::optional<std::string> model = fields.string("model", 1024);
  if (!model) return AdapterCatalog::Handle();
  return choose_model(*model, context);
}

void read_lora(FieldReader& fields, const ApiContext& context, AdapterCatalog::Handle& adapter) {
  if (context.adapters == nullptr)
    return fields.not_built("lora", "this server was started without --enable-lora");
  const json::array* entries = fields.array("lora", kMaxEntries);
  AdapterCatalog::Handle chosen;
  for (std::size_t i = 0; entries != nullptr && i < entries->size() && fields.ok(); ++i) {
    const std::string path = concat("lora.", i);
    const json::object* entry = (*entries)[i].if_object();
    if (entry == nullptr) return fields.fail(path, "must be an object");
    FieldReader reader(*entry, fields.path_of(path));
    AdapterCatalog::Handle one = read_entry(reader, context);
    if (!reader.ok()) return fields.fail(reader.status());
    if (one == nullptr) continue;
    if (chosen != nullptr && chosen != one)
      return fields.fail("lora", "chooses several adapters; a request is computed with one");
    chosen = std::move(one);
  }
  if (chosen == nullptr) return;
  if (adapter != nullptr && adapter != chosen)
    return fields.fail("lora", "chooses another adapter than 'model' names");
  adapter = std::move(chosen);
}

}  // namespace pagoda
