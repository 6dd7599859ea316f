// WeightLoader's records for per-request adapters.
#include "models/weights/adapter_targets.h"

#include "loader/adapter.h"
#include "loader/gguf.h"
#include "models/weights/weight_loader.h"

namespace pagoda {

std::string WeightLoader::name_for_adapters(const std::string& tensor) const {
  const std::string in_file = reader_.name_in_file(tensor);
  return std::string(plain_tensor_name(in_file.empty() ? tensor : in_file));
}

// Records the slot of the matrix packed last.
void WeightLoader::note_adapted(const Matrices& matrices) {
  std::vector<AdapterTargetPart>& parts = adapted_.emplace_back();
  std::size_t view = 0;
  std::int64_t output = 0;
  for (const auto& [of, part] : matrices.adapted) {
    for (; view < of; ++view) output += matrices.views[view].rows();
    parts.push_back(part);
    parts.back().first_output = output;
  }
}

void WeightLoader::ignore(const std::string& tensor) {
  if (reader_.has(tensor)) unread_.push_back(name_for_adapters(tensor));
  reader_.ignore(tensor);
}

AdapterTargets WeightLoader::adapter_targets() const {
  AdapterTargets targets;
  targets.format = source_.format();
  targets.matrices = adapted_;
  if (const GgufFile* const gguf = source_.gguf())
    if (const std::string* const own = gguf->string("general.architecture")) targets.architecture = *own;
  for (const std::string& name : source_.tensor_names()) targets.names.emplace(plain_tensor_name(name));
  targets.unread.insert(unread_.begin(), unread_.end());
  return targets;
}

}  // namespace pagoda
