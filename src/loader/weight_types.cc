#include "loader/weight_types.h"

#include <algorithm>
#include <vector>

#include "base/strings.h"

namespace pagoda {

std::string describe_types(const std::map<std::string, std::int64_t>& bytes_by_type) {
  std::int64_t total = 0;
  std::vector<std::pair<std::int64_t, std::string>> shares;
  for (const auto& [type, bytes] : bytes_by_type) {
    total += bytes;
    shares.emplace_back(bytes, type);
  }
  std::erase_if(shares, [&](const auto& share) { return share.first < total / 100 || share.first == 0; });
  std::sort(shares.rbegin(), shares.rend());
  if (shares.size() == 1) return shares.front().second;
  std::string out;
  for (const auto& [bytes, type] : shares) {
    const double percent = 100.0 * static_cast<double>(bytes) / static_cast<double>(total);
    out += concat(out.empty() ? "" : ", ", type, " (", fixed(percent, 0), " %)");
  }
  return out;
}

std::string describe_types(const GgufFile& file) {
  std::map<std::string, std::int64_t> bytes_by_type;
  for (const FileTensor& tensor : file.tensor_list()) bytes_by_type[std::string(tensor.type)] += tensor.bytes;
  return describe_types(bytes_by_type);
}

}  // namespace pagoda
