// Goal: a quantised folder whose parts are damaged is refused, whichever part and however: missing, of
// another type or shape, with scales that are no numbers, indices of groups that there are not, groups that
// do not divide. Method: every such damage to every part of two modules (and a stack of experts) of each
// folder of tests/fixtures/quantized, one at a time. What cannot be told from a good folder is listed by
// name.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <deque>
#include <filesystem>
#include <functional>
#include <numeric>

#include "loader/hf_source.h"
#include "loader/json_object.h"
#include "loader/test_files.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::kQuantizedFolders;

std::int64_t bytes_of(std::string_view type) {
  return type == "I64" ? 8 : type == "F32" || type == "I32" ? 4 : type == "BF16" || type == "F16" ? 2 : 1;
}

// A type of the same size that none of the methods has.
std::string_view other_type(std::string_view type) {
  switch (bytes_of(type)) {
    case 8:
      return "U64";
    case 4:
      return "U32";
    case 2:
      return "U16";
    default:
      return "F8_E5M2";
  }
}

// hf_quant_config.json alone.
SideFile only(std::optional<std::string> text) {
  return [text = std::move(text)](std::string_view name) {
    return name == kQuantizationFiles.front() ? text : std::nullopt;
  };
}

class DamagedFolder : public ::testing::TestWithParam<std::string> {
 protected:
  DamagedFolder()
      : bytes_(testing::read_binary(kQuantizedFolders + GetParam() + "/model.safetensors")),
        file_(*SafetensorsFile::parse(std::as_bytes(std::span(bytes_)))),
        config_(testing::read_binary(kQuantizedFolders + GetParam() + "/config.json")) {
    const std::string beside = kQuantizedFolders + GetParam() + "/hf_quant_config.json";
    if (fs::exists(beside)) beside_ = testing::read_binary(beside);
    for (const FileTensor& tensor : file_.tensor_list()) stored_.emplace(tensor.name, tensor);
    const auto whole = readable_tensors(*read_quantization_files(config_, only(beside_)), stored_);
    EXPECT_TRUE(whole) << whole.error().message();
    for (const auto& [name, tensor] : whole->quantized->tensors()) shapes_.emplace(name, tensor.shape);
    parts_ = whole->quantized->parts();
  }

  // Whether some weight cannot be had, or is none of the model's.
  bool refused(const std::string& config, const std::optional<std::string>& beside,
               const StoredTensors& stored) const {
    const auto clean = [](const Status& status) {
      EXPECT_FALSE(status.message().empty());
      EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
      EXPECT_TRUE(status.code() == StatusCode::corrupt_data || status.code() == StatusCode::unimplemented)
          << status.message();
      return true;
    };
    const auto how = read_quantization_files(config, only(beside));
    if (!how) return clean(how.error());
    const auto readable = readable_tensors(*how, stored);
    if (!readable) return clean(readable.error());
    const auto& weights = readable->quantized->tensors();
    for (const auto& [name, shape] : shapes_) {
      const auto found = weights.find(name);
      if (found == weights.end() || found->second.shape != shape) return true;  // the model says so
      const Status status = readable->quantized->bring_in(found->second, nullptr);
      if (!status.ok()) return clean(status);
      (void)readable->quantized->give_back(found->second);
    }
    return false;
  }

  void expect_refused(const std::string& what, const StoredTensors& stored) const {
    if (!refused(config_, beside_, stored)) ADD_FAILURE() << "accepted: " << what;
  }

  // `tensor` with another shape, its bytes cut or repeated.
  FileTensor with_shape(FileTensor tensor, std::vector<std::int64_t> shape) {
    std::int64_t bytes = bytes_of(tensor.type);
    for (const std::int64_t extent : shape) bytes *= extent;
    std::string& copy = copies_.emplace_back();
    while (std::ssize(copy) < bytes)
      copy.append(reinterpret_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.bytes));
    tensor.data = reinterpret_cast<const std::byte*>(copy.data());
    tensor.bytes = bytes;
    tensor.shape = std::move(shape);
    return tensor;
  }
  // The tensor with these bytes for one of its elements.
  FileTensor with_element(FileTensor tensor, std::int64_t index, std::string_view element) {
    std::string& copy = copies_.emplace_back(reinterpret_cast<const char*>(tensor.data),
                                             static_cast<std::size_t>(tensor.bytes));
    copy.replace(static_cast<std::size_t>(index) * element.size(), element.size(), element);
    tensor.data = reinterpret_cast<const std::byte*>(copy.data());
    return tensor;
  }

  std::string bytes_;
  SafetensorsFile file_;
  std::string config_;
  std::optional<std::string> beside_;
  StoredTensors stored_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;  // weights' shapes
  std::set<std::string, std::less<>> parts_;                 // stored tensors of weights
  std::deque<std::string> copies_;
};

// The tensors that are damaged.
bool is_tried(const std::string& name) {
  for (const char* module : {"q_proj", "mlp.down_proj", "experts.1.", "experts.down_proj"})
    if (name.find(module) != std::string::npos) return true;
  return false;
}

bool ends_with(const std::string& name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

// The weights do not consist of these: a folder without them is a good one.
bool is_beside(const std::string& name) {
  return ends_with(name, {".input_scale", ".activation_scale", ".weight_format"});
}

TEST_P(DamagedFolder, LacksAPart) {
  for (const std::string& name : parts_) {
    if (!is_tried(name) || is_beside(name)) continue;
    StoredTensors stored = stored_;
    stored.erase(name);
    // Neighbours share a group, unless columns say otherwise; and all of the method's modules need them.
    if (name.ends_with(".g_idx")) {
      EXPECT_EQ(refused(config_, beside_, stored), GetParam() == "gptq_act_order") << name;
      continue;
    }
    expect_refused(name, stored);
  }
}

TEST_P(DamagedFolder, HasAPartOfAnotherType) {
  for (const std::string& name : parts_) {
    if (!is_tried(name) || is_beside(name)) continue;
    StoredTensors stored = stored_;
    stored.at(name).type = other_type(stored.at(name).type);
    stored.at(name).dtype.reset();
    expect_refused(name, stored);
  }
}

TEST_P(DamagedFolder, HasAPartOfAnotherShape) {
  for (const std::string& name : parts_) {
    if (!is_tried(name) || is_beside(name)) continue;
    const FileTensor tensor = stored_.at(name);
    std::vector<std::vector<std::int64_t>> shapes;
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      for (const std::int64_t more : {std::int64_t{-1}, std::int64_t{1}, tensor.shape[axis]}) {
        shapes.push_back(tensor.shape);
        shapes.back()[axis] += more;
      }
      shapes.push_back(tensor.shape);
      shapes.back()[axis] = 0;
    }
    if (tensor.shape.size() > 1 && tensor.shape.front() != tensor.shape.back()) {
      shapes.push_back(tensor.shape);
      std::swap(shapes.back().front(), shapes.back().back());
    }
    shapes.emplace_back(tensor.shape.size(), 1);  // one scale for all
    for (const std::vector<std::int64_t>& shape : shapes) {
      if (shape == tensor.shape) continue;
      // The shape of bitsandbytes' codes says nothing: only their number counts.
      const auto count = [](const auto& of) {
        return std::accumulate(of.begin(), of.end(), std::int64_t{1}, std::multiplies<>());
      };
      if (GetParam() == "nf4" && count(shape) == count(tensor.shape)) continue;
      StoredTensors stored = stored_;
      stored.at(name) = with_shape(tensor, shape);
      expect_refused(name + " as " + json::serialize(json::value_from(shape)), stored);
    }
  }
}

TEST_P(DamagedFolder, HasAScaleThatIsNoNumber) {
  const auto tried = [](const FileTensor& tensor) -> std::vector<std::string> {
    using namespace std::string_literals;
    if (tensor.type == "F32") return {"\0\0\xc0\x7f"s, "\0\0\x80\x7f"s, "\0\0\x80\xff"s};
    if (tensor.type == "BF16") return {"\xc0\x7f"s, "\x80\x7f"s, "\x80\xff"s};
    if (tensor.type == "F16") return {"\0\x7e"s, "\0\x7c"s, "\0\xfc"s};
    if (tensor.type == "F8_E4M3") return {"\x7f"s, "\xff"s};
    if (tensor.type == "U8" && ends_with(tensor.name, {"_scale", "_scales"})) return {"\xff"s};
    return {};
  };
  for (const std::string& name : parts_) {
    if (!is_tried(name) || is_beside(name)) continue;
    const FileTensor& tensor = stored_.at(name);
    for (const std::string& element : tried(tensor)) {
      for (const std::int64_t at : {std::int64_t{0}, tensor.bytes / std::ssize(element) - 1}) {
        StoredTensors stored = stored_;
        stored.at(name) = with_element(tensor, at, element);
        expect_refused(name + " at " + std::to_string(at), stored);
      }
    }
  }
}

TEST_P(DamagedFolder, NamesGroupsThatThereAreNot) {
  for (const std::string& name : parts_) {
    if (!is_tried(name) || !name.ends_with("g_idx")) continue;
    const FileTensor& tensor = stored_.at(name);
    for (const std::int32_t group : {-1, 5, 1 << 30, std::numeric_limits<std::int32_t>::min()}) {
      for (const std::int64_t at : {std::int64_t{0}, tensor.bytes / 4 - 1}) {
        StoredTensors stored = stored_;
        stored.at(name) = with_element(tensor, at, {reinterpret_cast<const char*>(&group), sizeof group});
        expect_refused(name + " with " + std::to_string(group), stored);
      }
    }
  }
}

// Replaces the number of every "group_size", and the sizes of blocks; counts them.
int set_groups(json::value& value, std::int64_t size) {
  int count = 0;
  if (json::array* array = value.if_array()) {
    for (json::value& each : *array) count += set_groups(each, size);
  } else if (json::object* object = value.if_object()) {
    for (auto& [key, each] : *object) {
      if (key == "group_size" && each.is_int64()) {
        each = size;
        ++count;
      } else if (key == "weight_block_size" && each.is_array()) {
        each = json::array{size, size};
        ++count;
      } else {
        count += set_groups(each, size);
      }
    }
  }
  return count;
}

TEST_P(DamagedFolder, SaysGroupsThatDoNotDivide) {
  // Those without a size in their configuration, as bitsandbytes' folders, have it in a tensor.
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-2}, std::int64_t{7}, std::int64_t{24},
                                  std::int64_t{96}, std::int64_t{1} << 40}) {
    json::value config = *parse_json_object(config_, "config.json");
    std::optional<std::string> beside = beside_;
    int count = set_groups(config, size);
    if (beside) {
      json::value changed = json::parse(*beside);
      count += set_groups(changed, size);
      beside = json::serialize(changed);
    }
    // Two blocks of 96 columns are as many as two of 128: the shapes are the same.
    if (count == 0 || (size == 96 && GetParam() == "fp8_block")) continue;
    if (!refused(json::serialize(config), beside, stored_)) ADD_FAILURE() << "accepted: groups of " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DamagedFolder,
                         ::testing::ValuesIn(testing::folders_with(kQuantizedFolders, "weights.json")),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace pagoda
